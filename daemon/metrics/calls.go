package metrics

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/hpad/hpad/targets"
)

// fleetCalls are the calls that a fleet gets, by the name of the method.
var fleetCalls = [...]string{"snapshot", "samples", "set_replicas"}

// fleetErrors are the classes of a fleet's errors, the first that fits counting.
var fleetErrors = [...]struct {
	reason string
	class  error
}{
	{"timeout", context.DeadlineExceeded},
	{"throttled", targets.ErrThrottled},
	{"held", targets.ErrHeld},
	{"conflict", targets.ErrConflict},
	{"forbidden", targets.ErrForbidden},
	{"not_found", targets.ErrTargetNotFound},
	{"out_of_range", targets.ErrOutOfRange},
	{"unscalable", targets.ErrUnscalable},
	{"unknown_outcome", targets.ErrUnknownOutcome},
	{"transient", targets.ErrTransient},
}

// otherError is the reason of errors of no class.
const otherError = "other"

func fleetError(err error) string {
	for _, known := range fleetErrors {
		if errors.Is(err, known.class) {
			return known.reason
		}
	}
	return otherError
}

// calls count calls that leave the daemon, by the fleet or source they go to.
type calls struct {
	fleetDuration  *prometheus.HistogramVec
	fleetErrors    *prometheus.CounterVec
	sourceDuration *prometheus.HistogramVec
	sourceErrors   *prometheus.CounterVec
	fleetsNow      prometheus.Gauge
	sourcesNow     prometheus.Gauge
	platform       platformCalls

	mu sync.RWMutex
	// configured is set once fleets and sources are known; calls to others are
	// not counted then.
	configured      bool
	fleets, sources []string
}

func newCalls(factory promauto.Factory) calls {
	return calls{
		fleetDuration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hpad_fleet_call_duration_seconds", Buckets: durationBuckets(),
			Help: "How long calls to fleets took, failed ones included.",
		}, []string{"fleet", "call"}),
		fleetErrors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_fleet_call_errors_total",
			Help: "Calls to fleets that failed, by the class of the error.",
		}, []string{"fleet", "call", "reason"}),
		sourceDuration: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hpad_source_query_duration_seconds", Buckets: durationBuckets(),
			Help: "How long queries took, failed ones included.",
		}, []string{"source"}),
		sourceErrors: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "hpad_source_query_errors_total",
			Help: "Queries that failed.",
		}, []string{"source"}),
		fleetsNow: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_fleets",
			Help: "Fleets in the configuration in force.",
		}),
		sourcesNow: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_sources",
			Help: "Sources in the configuration in force.",
		}),
		platform: newPlatformCalls(factory),
	}
}

// Configured sets which fleets and sources the configuration in force has. The
// series of new ones start at zero, those of others go, and calls to others that
// are still under way are not counted.
func (m *Metrics) Configured(fleets, sources []string) {
	c := &m.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, gone := range c.fleets {
		if !slices.Contains(fleets, gone) {
			c.fleetDuration.DeletePartialMatch(prometheus.Labels{"fleet": gone})
			c.fleetErrors.DeletePartialMatch(prometheus.Labels{"fleet": gone})
			c.platform.forget(gone)
		}
	}
	for _, gone := range c.sources {
		if !slices.Contains(sources, gone) {
			c.sourceDuration.DeleteLabelValues(gone)
			c.sourceErrors.DeleteLabelValues(gone)
		}
	}
	c.configured = true
	c.fleets, c.sources = nil, nil
	for _, name := range fleets {
		c.addFleet(name)
	}
	for _, name := range sources {
		c.addSource(name)
	}
	c.fleetsNow.Set(float64(len(fleets)))
	c.sourcesNow.Set(float64(len(sources)))
}

func (c *calls) addFleet(name string) {
	c.fleets = append(c.fleets, name)
	for _, call := range fleetCalls {
		c.fleetDuration.WithLabelValues(name, call)
		c.fleetErrors.WithLabelValues(name, call, otherError)
		for _, known := range fleetErrors {
			c.fleetErrors.WithLabelValues(name, call, known.reason)
		}
	}
}

func (c *calls) addSource(name string) {
	c.sources = append(c.sources, name)
	c.sourceDuration.WithLabelValues(name)
	c.sourceErrors.WithLabelValues(name)
}

// count calls f unless the fleet or source is not configured.
func (c *calls) count(known *[]string, name string, add func(string), f func()) {
	c.mu.RLock()
	if slices.Contains(*known, name) {
		defer c.mu.RUnlock()
		f()
		return
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(*known, name) {
		if c.configured {
			return
		}
		add(name)
	}
	f()
}

// FleetCall counts a call to a fleet: "snapshot", "samples" or "set_replicas".
// One that was canceled, because the daemon stops, is no error.
func (m *Metrics) FleetCall(fleet, call string, duration time.Duration, err error) {
	c := &m.calls
	c.count(&c.fleets, fleet, c.addFleet, func() {
		c.fleetDuration.WithLabelValues(fleet, call).Observe(duration.Seconds())
		if err != nil && !errors.Is(err, context.Canceled) {
			c.fleetErrors.WithLabelValues(fleet, call, fleetError(err)).Inc()
		}
	})
}

// Query counts a query of a source. One that was canceled, because the daemon
// stops, is no error.
func (m *Metrics) Query(source string, duration time.Duration, err error) {
	c := &m.calls
	c.count(&c.sources, source, c.addSource, func() {
		c.sourceDuration.WithLabelValues(source).Observe(duration.Seconds())
		if err != nil && !errors.Is(err, context.Canceled) {
			c.sourceErrors.WithLabelValues(source).Inc()
		}
	})
}
