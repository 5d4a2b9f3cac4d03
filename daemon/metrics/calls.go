package metrics

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/hpad/hpad/targets"
)

// fleetCalls lists the calls with series that exist from the start. "discover" is missing, because
// only some fleets support it.
var fleetCalls = [...]string{"snapshot", "samples", "set_replicas"}

// fleetErrors classifies the errors of fleets. The first matching entry applies.
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

// otherError is the reason for errors that match no class.
const otherError = "other"

func fleetError(err error) string {
	for _, known := range fleetErrors {
		if errors.Is(err, known.class) {
			return known.reason
		}
	}
	return otherError
}

// calls counts the calls to fleets, platforms and sources.
type calls struct {
	fleetDuration   *prometheus.HistogramVec
	fleetErrors     *prometheus.CounterVec
	sourceDuration  *prometheus.HistogramVec
	sourceErrors    *prometheus.CounterVec
	platformTotal   *prometheus.CounterVec
	platformSeconds *prometheus.CounterVec
	platformWaited  *prometheus.CounterVec
	fleetsNow       prometheus.Gauge
	sourcesNow      prometheus.Gauge
	// fleets and sources are the names in the active configuration.
	fleets, sources []string
}

func newCalls(factory promauto.Factory) calls {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return factory.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	durations := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return factory.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets()}, labels)
	}
	return calls{
		fleetDuration:   durations("hpad_fleet_call_duration_seconds", "Duration of calls to fleets, including failed ones.", "fleet", "call"),
		fleetErrors:     counters("hpad_fleet_call_errors_total", "Failed calls to fleets, by class of the error.", "fleet", "call", "reason"),
		sourceDuration:  durations("hpad_source_query_duration_seconds", "Duration of queries, including failed ones.", "source"),
		sourceErrors:    counters("hpad_source_query_errors_total", "Failed queries.", "source"),
		platformTotal:   counters("hpad_platform_calls_total", "Calls to a platform that limits its callers, by result: success, throttled or error.", "fleet", "operation", "result"),
		platformSeconds: counters("hpad_platform_call_seconds_total", "Total duration of calls to a platform, including failed ones.", "fleet", "operation"),
		platformWaited:  counters("hpad_platform_wait_seconds_total", "Total time that calls to a platform waited for hpad's own rate limit.", "fleet", "operation"),
		fleetsNow:       factory.NewGauge(prometheus.GaugeOpts{Name: "hpad_fleets", Help: "Fleets in the active configuration."}),
		sourcesNow:      factory.NewGauge(prometheus.GaugeOpts{Name: "hpad_sources", Help: "Sources in the active configuration."}),
	}
}

// Configured sets the fleets and sources of the active configuration. Series of added adapters
// start at zero, and series of removed adapters are deleted. It must not be called concurrently.
func (m *Metrics) Configured(fleets, sources []string) {
	c := &m.calls
	for _, fleet := range c.fleets {
		if !slices.Contains(fleets, fleet) {
			labels := prometheus.Labels{"fleet": fleet}
			c.fleetDuration.DeletePartialMatch(labels)
			for _, vec := range []*prometheus.CounterVec{c.fleetErrors, c.platformTotal, c.platformSeconds, c.platformWaited} {
				vec.DeletePartialMatch(labels)
			}
		}
	}
	for _, source := range c.sources {
		if !slices.Contains(sources, source) {
			c.sourceDuration.DeleteLabelValues(source)
			c.sourceErrors.DeleteLabelValues(source)
		}
	}
	c.fleets, c.sources = fleets, sources
	for _, fleet := range fleets {
		for _, call := range fleetCalls {
			c.fleetDuration.WithLabelValues(fleet, call)
			c.fleetErrors.WithLabelValues(fleet, call, otherError)
			for _, known := range fleetErrors {
				c.fleetErrors.WithLabelValues(fleet, call, known.reason)
			}
		}
	}
	for _, source := range sources {
		c.sourceDuration.WithLabelValues(source)
		c.sourceErrors.WithLabelValues(source)
	}
	c.fleetsNow.Set(float64(len(fleets)))
	c.sourcesNow.Set(float64(len(sources)))
}

// FleetCall counts a call to a fleet: "snapshot", "samples", "discover" or "set_replicas". It does
// not treat a call that was canceled because the daemon is stopping as an error.
func (m *Metrics) FleetCall(fleet, call string, duration time.Duration, err error) {
	m.calls.fleetDuration.WithLabelValues(fleet, call).Observe(duration.Seconds())
	if err != nil && !errors.Is(err, context.Canceled) {
		m.calls.fleetErrors.WithLabelValues(fleet, call, fleetError(err)).Inc()
	}
}

// Query counts a query to a source. It does not treat a query that was canceled because the daemon
// is stopping as an error.
func (m *Metrics) Query(source string, duration time.Duration, err error) {
	m.calls.sourceDuration.WithLabelValues(source).Observe(duration.Seconds())
	if err != nil && !errors.Is(err, context.Canceled) {
		m.calls.sourceErrors.WithLabelValues(source).Inc()
	}
}

// Platform returns the meter for a fleet's calls to its platform.
func (m *Metrics) Platform(fleet string) targets.Meter {
	return platform{calls: &m.calls, fleet: fleet}
}

type platform struct {
	calls *calls
	fleet string
}

// Call counts a call unless it was canceled because the daemon is stopping.
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
	p.calls.platformTotal.WithLabelValues(p.fleet, operation, result).Inc()
	p.calls.platformSeconds.WithLabelValues(p.fleet, operation).Add(took.Seconds())
}

func (p platform) Wait(operation string, waited time.Duration) {
	p.calls.platformWaited.WithLabelValues(p.fleet, operation).Add(waited.Seconds())
}
