package metrics

import "github.com/prometheus/client_golang/prometheus"

// Receiver is what became of the notifications for one receiver: those that arrived, that
// did not within their time, that found no room in the queue, and that wait.
type Receiver struct {
	Sent, Failed, Dropped uint64
	Waiting               int
}

func receiverDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("hpad_notifications_"+name, help, []string{"receiver"}, nil)
}

var (
	sentDesc    = receiverDesc("sent_total", "Notifications that arrived.")
	failedDesc  = receiverDesc("failed_total", "Notifications that the receiver refused, or that did not arrive within give_up_after.")
	droppedDesc = receiverDesc("dropped_total", "Notifications that were lost because the queue was full, or hpad stopped.")
	waitingDesc = receiverDesc("waiting", "Notifications in the queue.")
)

// ShowReceivers sets where the counts of all receivers come from, once per scrape.
func (m *Metrics) ShowReceivers(receivers func() map[string]Receiver) {
	m.receivers.view.Store(&receivers)
}

func sendReceivers(receivers map[string]Receiver, metrics chan<- prometheus.Metric) {
	for name, r := range receivers {
		metrics <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(r.Sent), name)
		metrics <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(r.Failed), name)
		metrics <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(r.Dropped), name)
		metrics <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(r.Waiting), name)
	}
}
