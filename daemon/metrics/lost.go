package metrics

import "github.com/prometheus/client_golang/prometheus"

var lostDesc = prometheus.NewDesc("hpad_state_lost",
	"Whether a part of the state was lost lately: 1 or 0. The part is memory, history, or directory, which was removed while hpad ran.",
	[]string{"part"}, nil)

// ShowLost sets what reports of each part of the state whether it was lost lately, once
// per scrape.
func (m *Metrics) ShowLost(lost func() map[string]bool) { m.lost.view.Store(&lost) }

func sendLost(lost map[string]bool, metrics chan<- prometheus.Metric) {
	for part, is := range lost {
		metrics <- prometheus.MustNewConstMetric(lostDesc, prometheus.GaugeValue, truth(is), part)
	}
}
