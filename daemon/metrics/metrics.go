// Package metrics provides the Prometheus metrics of the daemon. Metrics that the HPA controller
// also provides keep their meaning and get the prefix hpad_.
//
// Counters of events exist from startup. The series of autoscalers are read from the published
// views at each scrape, so that passes do not update them. docs/metrics.md lists every metric.
package metrics

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/hpad/hpad/daemon/api"
)

// Metrics collects and exports the measurements of one daemon. It is safe for concurrent use.
type Metrics struct {
	passes  passes
	reasons *prometheus.CounterVec
	calls   calls
	state   stateWrites
	clock   clockSteps
	reloads reloads
	dryRun  prometheus.Gauge
	// withoutSeries hides the series of autoscalers, except from scrapes that request them by name.
	withoutSeries atomic.Bool
	views         atomic.Pointer[func() iter.Seq[api.Autoscaler]]
	registry      prometheus.Registerer
	*handles
}

// handles maps the names of autoscalers to their counters.
type handles struct {
	mu          sync.RWMutex
	autoscalers map[string]*Autoscaler
}

// New returns the metrics of a daemon and registers them. If reg is nil, they are not registered.
// Series with known label values start at zero.
func New(reg prometheus.Registerer) *Metrics {
	factory := promauto.With(reg)
	m := &Metrics{
		passes:   newPasses(factory),
		reasons:  newReasons(factory),
		calls:    newCalls(factory),
		state:    newStateWrites(factory),
		clock:    newClockSteps(factory),
		reloads:  newReloads(factory),
		registry: reg,
		handles:  &handles{autoscalers: map[string]*Autoscaler{}},
		dryRun: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_dry_run",
			Help: "Whether hpad is in a dry run and writes no counts: 1 or 0.",
		}),
	}
	build := api.Build()
	factory.NewGauge(prometheus.GaugeOpts{
		Name: "hpad_build_info",
		Help: "Build information of hpad; always 1.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion, "platform": build.Platform,
		},
	}).Set(1)
	return m
}

// Shard returns the metrics of one fleet in a cluster, and their gatherer. They have the label
// "shard" with the fleet's name. Counters of autoscalers are shared with m and do not have this
// label.
func (m *Metrics) Shard(name string) (*Metrics, prometheus.Gatherer) {
	registry := prometheus.NewRegistry()
	shard := New(prometheus.WrapRegistererWith(prometheus.Labels{"shard": name}, registry))
	shard.handles = m.handles
	return shard, registry
}

// Show sets the function that returns the autoscalers for each scrape.
func (m *Metrics) Show(views func() iter.Seq[api.Autoscaler]) { m.views.Store(&views) }

// ShowSeries sets whether scrapes that name no metrics include the series of autoscalers. The
// default is true.
func (m *Metrics) ShowSeries(on bool) { m.withoutSeries.Store(!on) }

// DryRun sets whether the daemon is in a dry run, in which it writes no counts.
func (m *Metrics) DryRun(on bool) { m.dryRun.Set(truth(on)) }

// Autoscaler returns the counters for the passes of an autoscaler.
func (m *Metrics) Autoscaler(name string) *Autoscaler {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.autoscalers[name]
	if a == nil {
		a = &Autoscaler{passes: &m.passes}
		m.autoscalers[name] = a
	}
	return a
}

// Forget removes the counters of a removed autoscaler. A running pass may continue to use them.
func (m *handles) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.autoscalers, name)
}

// Late counts a tick that arrived while an earlier pass of the autoscaler was running.
func (m *Metrics) Late(name string) {
	if a := m.find(name); a != nil {
		a.late.Add(1)
	}
}

// Panic counts a pass of the autoscaler that panicked.
func (m *Metrics) Panic(name string) {
	if a := m.find(name); a != nil {
		a.panics.Add(1)
	}
}

// ForeignChange counts a change of the count by another writer.
func (m *Metrics) ForeignChange(name string) {
	if a := m.find(name); a != nil {
		a.foreign.Add(1)
	}
}

// ImplausibleReading counts a suspect reading of the autoscaler's target.
func (m *Metrics) ImplausibleReading(name string) {
	if a := m.find(name); a != nil {
		a.doubted.Add(1)
	}
}

// find returns the counters of an autoscaler, or nil if it was removed.
func (m *handles) find(name string) *Autoscaler {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.autoscalers[name]
}

func (m *handles) count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.autoscalers)
}

// durationBuckets returns the buckets of the HPA controller in seconds, from 1 ms to 32 s.
func durationBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 16) }

type stateWrites struct {
	duration   prometheus.Histogram
	records    prometheus.Counter
	failures   prometheus.Counter
	lostPoints prometheus.Counter
}

func newStateWrites(factory promauto.Factory) stateWrites {
	return stateWrites{
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "hpad_state_write_duration_seconds", Buckets: durationBuckets(),
			Help: "Duration of writes to the state directory, including failed ones.",
		}),
		records: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_state_written_records_total",
			Help: "Records of autoscalers that were written to the state directory.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_state_write_failures_total",
			Help: "Failed writes to the state directory. The records are written again later.",
		}),
		lostPoints: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_graph_lost_points_total",
			Help: "Passes that are missing in graphs because their data could not be stored.",
		}),
	}
}

// StateWrite counts a commit of records. It is a success if err is nil.
func (m *Metrics) StateWrite(duration time.Duration, records int, err error) {
	m.state.duration.Observe(duration.Seconds())
	if err != nil {
		m.state.failures.Inc()
		return
	}
	m.state.records.Add(float64(records))
}

// LostPoints counts passes whose data points are missing in graphs.
func (m *Metrics) LostPoints(n int) { m.state.lostPoints.Add(float64(n)) }

type reloads struct {
	total      [2]prometheus.Counter // index 0: failures, 1: successes
	successful prometheus.Gauge
	at         prometheus.Gauge
}

func newReloads(factory promauto.Factory) reloads {
	total := factory.NewCounterVec(prometheus.CounterOpts{
		Name: "hpad_config_reloads_total",
		Help: "Reloads of the configuration, by result.",
	}, []string{"result"})
	r := reloads{
		total: [2]prometheus.Counter{total.WithLabelValues("failure"), total.WithLabelValues("success")},
		successful: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_config_last_reload_successful",
			Help: "Whether the last reload of the configuration succeeded: 1 or 0. With 0 the previous configuration is active.",
		}),
		at: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_config_last_reload_success_timestamp_seconds",
			Help: "Time of the last successful load of the configuration.",
		}),
	}
	// A running daemon has already loaded a configuration.
	r.successful.Set(1)
	r.at.SetToCurrentTime()
	return r
}

// Reload counts a reload of the configuration. It is a success if err is nil.
func (m *Metrics) Reload(err error) {
	if err != nil {
		m.reloads.total[0].Inc()
		m.reloads.successful.Set(0)
		return
	}
	m.reloads.total[1].Inc()
	m.reloads.successful.Set(1)
	m.reloads.at.SetToCurrentTime()
}

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
			Help: "Offset of the wall clock from the clock for windows and rates: the sum of its steps.",
		}),
	}
}

// ClockStep counts a step of the wall clock. by is negative for a step back. offset is the
// difference between the wall clock and the daemon's own clock after the step.
func (m *Metrics) ClockStep(by, offset time.Duration) {
	if by < 0 {
		m.clock.back.Inc()
	} else {
		m.clock.forward.Inc()
	}
	m.ClockOffset(offset)
}

// ClockOffset sets the difference between the wall clock and the daemon's own clock.
func (m *Metrics) ClockOffset(offset time.Duration) { m.clock.offset.Set(offset.Seconds()) }
