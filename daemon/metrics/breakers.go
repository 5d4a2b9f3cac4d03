package metrics

import "github.com/prometheus/client_golang/prometheus"

// Breaker is how the breaker of a fleet stands.
type Breaker struct {
	// Open reports whether it holds all scale-downs.
	Open bool
	// Removed is how many instances were taken away within its window.
	Removed int64
}

var (
	breakerOpenDesc    = prometheus.NewDesc("hpad_fleet_breaker_open", "Whether the breaker of a fleet holds all its scale-downs: 1 or 0.", []string{"fleet"}, nil)
	breakerRemovedDesc = prometheus.NewDesc("hpad_fleet_breaker_removed", "Instances that the autoscalers of a fleet with a breaker took away within its window.", []string{"fleet"}, nil)
)

// ShowBreakers sets where the breakers of all fleets that have one come from, once per
// scrape.
func (m *Metrics) ShowBreakers(breakers func() map[string]Breaker) {
	m.breakers.view.Store(&breakers)
}

func sendBreakers(breakers map[string]Breaker, metrics chan<- prometheus.Metric) {
	for fleet, b := range breakers {
		metrics <- prometheus.MustNewConstMetric(breakerOpenDesc, prometheus.GaugeValue, truth(b.Open), fleet)
		metrics <- prometheus.MustNewConstMetric(breakerRemovedDesc, prometheus.GaugeValue, float64(b.Removed), fleet)
	}
}
