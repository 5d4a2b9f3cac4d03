package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type clockSteps struct {
	forward, back prometheus.Counter
	offset        prometheus.Gauge
}

func newClockSteps(factory promauto.Factory) clockSteps {
	steps := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "hpad_clock_steps_total",
		Help: "Steps of the wall clock by more than a second. They do not affect windows and rates.",
	}, []string{"direction"})
	return clockSteps{
		forward: steps.WithLabelValues("forward"),
		back:    steps.WithLabelValues("back"),
		offset: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_clock_offset_seconds",
			Help: "Sum of the steps of the wall clock: its difference to the clock of windows and rates.",
		}),
	}
}

// ClockStep counts a step of the wall clock, negative for back, after which it is offset ahead of
// the daemon's own clock.
func (m *Metrics) ClockStep(by, offset time.Duration) {
	if by < 0 {
		m.clock.back.Inc()
	} else {
		m.clock.forward.Inc()
	}
	m.ClockOffset(offset)
}

// ClockOffset sets the difference of the wall clock to the daemon's own clock.
func (m *Metrics) ClockOffset(offset time.Duration) { m.clock.offset.Set(offset.Seconds()) }
