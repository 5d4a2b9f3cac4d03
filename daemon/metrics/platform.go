package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/hpad/hpad/targets"
)

// platformCalls count what fleets do towards platforms that limit their callers.
type platformCalls struct {
	total, seconds, waited *prometheus.CounterVec
}

func newPlatformCalls(factory promauto.Factory) platformCalls {
	return platformCalls{
		total: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_platform_calls_total",
			Help: "Calls to a platform that limits its callers, by result: success, throttled or error.",
		}, []string{"fleet", "operation", "result"}),
		seconds: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_platform_call_seconds_total",
			Help: "Time that calls to a platform took, failed ones included.",
		}, []string{"fleet", "operation"}),
		waited: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_platform_wait_seconds_total",
			Help: "Time that calls to a platform waited for hpad's own limit before they were made.",
		}, []string{"fleet", "operation"}),
	}
}

func (p *platformCalls) forget(fleet string) {
	for _, vec := range []*prometheus.CounterVec{p.total, p.seconds, p.waited} {
		vec.DeletePartialMatch(prometheus.Labels{"fleet": fleet})
	}
}

// Platform returns what counts the calls of a fleet to its platform.
func (m *Metrics) Platform(fleet string) targets.Meter { return platform{m: m, fleet: fleet} }

type platform struct {
	m     *Metrics
	fleet string
}

// Call counts one call. One that was canceled, because the daemon stops, is not
// counted.
func (p platform) Call(operation string, took time.Duration, err error) {
	result := "success"
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, targets.ErrThrottled):
		result = "throttled"
	case err != nil:
		result = "error"
	}
	c := &p.m.calls
	c.count(&c.fleets, p.fleet, c.addFleet, func() {
		c.platform.total.WithLabelValues(p.fleet, operation, result).Inc()
		c.platform.seconds.WithLabelValues(p.fleet, operation).Add(took.Seconds())
	})
}

func (p platform) Wait(operation string, waited time.Duration) {
	c := &p.m.calls
	c.count(&c.fleets, p.fleet, c.addFleet, func() {
		c.platform.waited.WithLabelValues(p.fleet, operation).Add(waited.Seconds())
	})
}
