// Package metrics counts what the daemon does, for Prometheus, with the
// meanings of the HPA controller's own metrics under hpad_.
//
// What happens is counted as it happens, on children that exist from the start.
// What an autoscaler is (its counts, conditions, metrics) is read from the
// published views when somebody scrapes, so that a round pays nothing for it.
// docs/metrics.md lists every metric.
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

// Metrics are the metrics of one daemon. They are safe for concurrent use.
type Metrics struct {
	passes  passes
	reasons []prometheus.Counter
	calls   calls
	state   stateWrites
	clock   clockSteps
	reloads reloads
	dryRun  prometheus.Gauge
	// withoutSeries is set where those of autoscalers are left out unless they are named.
	withoutSeries atomic.Bool
	views         atomic.Pointer[func() iter.Seq[api.Autoscaler]]
	discovered    scraped[[]api.Discovered]
	lost          scraped[map[string]bool]
	breakers      scraped[map[string]Breaker]
	receivers     scraped[map[string]Receiver]
	budgets       scraped[Budgets]
	cluster       scraped[Cluster]
	*handles
}

// handles are those of autoscalers, by name.
type handles struct {
	mu          sync.RWMutex
	autoscalers map[string]*Autoscaler
}

// New makes the metrics of a daemon and registers them; nil registers nowhere.
// Known label sets start at zero.
func New(reg prometheus.Registerer) *Metrics {
	factory := promauto.With(reg)
	m := &Metrics{
		passes:     newPasses(factory),
		reasons:    newReasons(factory),
		calls:      newCalls(factory),
		state:      newStateWrites(factory),
		clock:      newClockSteps(factory),
		reloads:    newReloads(factory),
		discovered: scraped[[]api.Discovered]{descs: []*prometheus.Desc{discoveredDesc}, send: sendDiscovered},
		lost:       scraped[map[string]bool]{descs: []*prometheus.Desc{lostDesc}, send: sendLost},
		breakers:   scraped[map[string]Breaker]{descs: []*prometheus.Desc{breakerOpenDesc, breakerRemovedDesc}, send: sendBreakers},
		receivers:  scraped[map[string]Receiver]{descs: []*prometheus.Desc{sentDesc, failedDesc, droppedDesc, waitingDesc}, send: sendReceivers},
		budgets: scraped[Budgets]{
			descs: []*prometheus.Desc{budgetLimitDesc, budgetUsedDesc, budgetWaitsDesc, budgetRefusalsDesc}, send: sendBudgets,
		},
		cluster: scraped[Cluster]{
			descs: []*prometheus.Desc{clusterMemberDesc, clusterMembersDesc, clusterOwnedDesc, clusterUnownedDesc, clusterTermsDesc, clusterFencedDesc, clusterOffsetDesc}, send: sendCluster,
		},
		handles: &handles{autoscalers: map[string]*Autoscaler{}},
		dryRun: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_dry_run",
			Help: "Whether hpad is in a dry run, and writes no counts: 1 or 0.",
		}),
	}
	build := api.Build()
	factory.NewGauge(prometheus.GaugeOpts{
		Name: "hpad_build_info",
		Help: "Which hpad this is; always 1.",
		ConstLabels: prometheus.Labels{
			"version": build.Version, "revision": build.Revision, "goversion": build.GoVersion, "platform": build.Platform,
		},
	}).Set(1)
	if reg != nil {
		reg.MustRegister(&m.discovered, &m.lost, &m.breakers, &m.receivers, &m.budgets, &m.cluster)
	}
	return m
}

// Shard returns the metrics of one fleet of a cluster, and their gatherer. Each has the label
// shard with the name, except for those of autoscalers, which belong to m.
func (m *Metrics) Shard(name string) (*Metrics, prometheus.Gatherer) {
	registry := prometheus.NewRegistry()
	shard := New(prometheus.WrapRegistererWith(prometheus.Labels{"shard": name}, registry))
	shard.handles = m.handles
	return shard, registry
}

// Show sets where the views of the autoscalers come from, once per scrape.
func (m *Metrics) Show(views func() iter.Seq[api.Autoscaler]) { m.views.Store(&views) }

// ShowSeries sets whether the series of each autoscaler are shown also where they are
// not asked for by their names; they are, until it is called.
func (m *Metrics) ShowSeries(on bool) { m.withoutSeries.Store(!on) }

// ShowDiscovered sets where the targets come from that fleets found by their
// labels, once per scrape.
func (m *Metrics) ShowDiscovered(discovered func() []api.Discovered) {
	m.discovered.view.Store(&discovered)
}

// DryRun sets whether the daemon writes no counts.
func (m *Metrics) DryRun(on bool) { m.dryRun.Set(truth(on)) }

// Autoscaler returns the handle of the autoscaler of that name, to be kept by
// whoever evaluates it.
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

// Forget drops what was counted for an autoscaler that is gone. Its handle may
// still be used by a pass that is ending.
func (m *handles) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.autoscalers, name)
}

// Late counts a tick at which a pass of the autoscaler was still under way.
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

// Foreign counts a change of the autoscaler's target by somebody else.
func (m *Metrics) Foreign(name string) {
	if a := m.find(name); a != nil {
		a.foreign.Add(1)
	}
}

// Doubted counts a reading of the autoscaler's target that was not believed.
func (m *Metrics) Doubted(name string) {
	if a := m.find(name); a != nil {
		a.doubted.Add(1)
	}
}

// find returns nil for an autoscaler that is not there, as one that is gone.
func (m *handles) find(name string) *Autoscaler {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.autoscalers[name]
}

// count returns how many autoscalers there are handles of.
func (m *handles) count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.autoscalers)
}

// durationBuckets are those of the HPA controller, in seconds: 1 ms to 32 s.
func durationBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 16) }

type stateWrites struct {
	duration prometheus.Histogram
	records  prometheus.Counter
	failures prometheus.Counter
	// lostPoints are those of drawings.
	lostPoints prometheus.Counter
}

func newStateWrites(factory promauto.Factory) stateWrites {
	return stateWrites{
		duration: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "hpad_state_write_duration_seconds", Buckets: durationBuckets(),
			Help: "How long writes to the state directory took, failed ones included.",
		}),
		records: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_state_written_records_total",
			Help: "Records of autoscalers that were written to the state directory.",
		}),
		failures: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_state_write_failures_total",
			Help: "Writes to the state directory that failed. What they held is tried again.",
		}),
		lostPoints: factory.NewCounter(prometheus.CounterOpts{
			Name: "hpad_graph_lost_points_total",
			Help: "Passes that drawings lack because their points could not be kept. Nothing else depends on them.",
		}),
	}
}

// StateWrite counts a commit of so many records; err is nil when it succeeded.
func (m *Metrics) StateWrite(duration time.Duration, records int, err error) {
	m.state.duration.Observe(duration.Seconds())
	if err != nil {
		m.state.failures.Inc()
		return
	}
	m.state.records.Add(float64(records))
}

// LostPoints counts points that drawings lack.
func (m *Metrics) LostPoints(n int) { m.state.lostPoints.Add(float64(n)) }

type reloads struct {
	total      [2]prometheus.Counter // failures, successes
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
			Help: "Whether the configuration was valid when it was last read: 1 or 0. With 0 the one before it is in force.",
		}),
		at: factory.NewGauge(prometheus.GaugeOpts{
			Name: "hpad_config_last_reload_success_timestamp_seconds",
			Help: "When a valid configuration was last read.",
		}),
	}
	// A daemon that runs has read one.
	r.successful.Set(1)
	r.at.SetToCurrentTime()
	return r
}

// Reload counts a reload of the configuration; err is nil when it succeeded.
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
