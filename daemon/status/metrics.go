package status

import (
	"iter"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/policy"
)

// ShowMetrics exports the status as metrics.
func (s *Reader) ShowMetrics(m *metrics.Metrics) {
	m.Show(func() iter.Seq[api.Autoscaler] { return s.AutoscalersAfter("") })
	m.ShowDiscovered(s.Discovered)
	m.ShowLost(func() map[string]bool { return records.LostParts(s.Losses()) })
	m.ShowBreakers(s.Breakers)
	m.ShowReceivers(func() map[string]metrics.Receiver {
		shown := map[string]metrics.Receiver{}
		for name, counts := range s.env.Receivers.Counts() {
			shown[name] = metrics.Receiver(counts)
		}
		return shown
	})
}

// Breakers returns the state of the breaker of each fleet that has one.
func (s *Reader) Breakers() map[string]metrics.Breaker {
	shown := map[string]metrics.Breaker{}
	now := s.env.Clock.Now()
	active := s.env.Pauses.Active()
	for name, fleet := range s.scheduler.Current().Config.Fleets {
		if fleet.Breaker == nil {
			continue
		}
		pause, open := active[policy.Scope{Fleet: name, Breaker: true}]
		removals := s.env.Breakers.Within(name, fleet.Breaker.Window, now)
		shown[name] = metrics.Breaker{Open: open && !pause.Ended(now), Removed: removals.Sum()}
	}
	return shown
}
