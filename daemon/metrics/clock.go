package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// clockSteps count what became of the wall clock.
type clockSteps struct {
	forward, back prometheus.Counter
	offset        prometheus.Gauge
}

func newClockSteps(factory promauto.Factory) clockSteps {
	steps := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "hpad_clock_steps_total",
		Help: "Steps of the wall clock by more than a second. Windows and rates do not follow them.",
	}, []string{"direction"})
	return clockSteps{
		forward: steps.WithLabelValues("forward"),
		back:    steps.WithLabelValues("back"),
		offset: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_clock_offset_seconds",
			Help: "How far the wall clock is ahead of the one that windows and rates go by: what its steps add up to.",
		}),
	}
}

// ClockStep counts a step of the wall clock, below zero for back, that left it
// offset ahead of the daemon's own.
func (m *Metrics) ClockStep(by, offset time.Duration) {
	if by < 0 {
		m.clock.back.Inc()
	} else {
		m.clock.forward.Inc()
	}
	m.ClockOffset(offset)
}

// ClockOffset sets how far the wall clock is ahead of the daemon's own.
func (m *Metrics) ClockOffset(offset time.Duration) { m.clock.offset.Set(offset.Seconds()) }
