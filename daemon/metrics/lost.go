package metrics

import "github.com/prometheus/client_golang/prometheus"

var lostDesc = prometheus.NewDesc("hpad_state_lost",
	"Whether a part of the state was lost lately: 1 or 0. The part is memory, history, or directory, which was removed while hpad ran.",
	[]string{"part"}, nil)

// losses shows what of the state was lost when somebody scrapes.
type losses Metrics

// ShowLost sets what reports of each part of the state whether it was lost lately, once
// per scrape.
func (m *Metrics) ShowLost(lost func() map[string]bool) { m.lost.Store(&lost) }

// Describe sends what Collect may.
func (l *losses) Describe(descs chan<- *prometheus.Desc) { descs <- lostDesc }

// Collect sends every part.
func (l *losses) Collect(metrics chan<- prometheus.Metric) {
	show := l.lost.Load()
	if show == nil {
		return
	}
	for part, lost := range (*show)() {
		metrics <- prometheus.MustNewConstMetric(lostDesc, prometheus.GaugeValue, truth(lost), part)
	}
}
