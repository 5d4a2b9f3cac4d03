// Package daemontest provides a daemon with in-memory dependencies for the tests of the packages of
// the daemon.
package daemontest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/targettest"
)

// World is a daemon with in-memory dependencies for a synctest bubble. Tests change its fields before
// Start.
type World struct {
	T testing.TB
	// Graph may be nil.
	Graph   *graph.Store
	Fleets  map[string]*targettest.Memory
	Sources map[string]*Source
	Store   *Store
	Config  *config.Config
	LoadErr error
	DryRun  bool
	// Kind applies to all fleets. Empty means "memory".
	Kind         string
	Until        func() time.Time
	StoreTimeout time.Duration
	Log          *zap.Logger
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// SourceKind and SourceConfig, if not nil, create the sources and their configuration.
	SourceKind   func(name string) sources.Source
	SourceConfig func() any
	// FleetKind and FleetConfig, if not nil, create the fleets and their configuration.
	FleetKind   func(*targettest.Memory) targets.Fleet
	FleetConfig func() targets.Config
	// Discover enables discovery in all fleets.
	Discover    bool
	LabelLimits targets.LabelLimits
	// Breaker applies to all fleets. It may be nil.
	Breaker *config.Breaker
	// Step is the sum of the clock steps.
	Step atomic.Int64
	// Notified lists the states sent to the service manager.
	Notified  []string
	notifying sync.Mutex

	// Daemon is the running daemon. Cancel stops it, and Ended receives the result of its Run.
	Daemon *daemon.Daemon
	Cancel context.CancelFunc
	Ended  chan error
}

// New returns a world with the fleet "fleet", the source "source", and no autoscalers.
func New(t testing.TB) *World {
	return &World{
		T:       t,
		Fleets:  map[string]*targettest.Memory{"fleet": targettest.NewMemory("fleet")},
		Sources: map[string]*Source{"source": NewSource()},
		Store:   NewStore(),
		Log:     zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
		Config: &config.Config{
			Daemon:      config.DefaultDaemon(),
			Autoscalers: map[string]*config.Autoscaler{},
		},
	}
}

// Run runs a test with a new world in a synctest bubble. At the end, it checks that all recorded
// decisions are reproducible.
func Run(t *testing.T, test func(t *testing.T, w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		test(t, w)
		w.verifyHistory()
	})
}

// verifyHistory checks that all recorded decisions are reproducible.
func (w *World) verifyHistory() {
	w.T.Helper()
	entries, err := w.Store.History(w.T.Context(), "", time.Time{}, time.Time{}, 0)
	if err != nil {
		w.T.Fatal(err)
	}
	for i := range entries {
		if entries[i].Decision.Time.IsZero() || entries[i].Reason == reason.Panicked.String() { // no decision
			continue
		}
		in := entries[i].Inputs
		if in == nil {
			w.T.Errorf("no inputs for the decision %+v", entries[i].Decision)
			continue
		}
		recorded, err1 := json.Marshal(entries[i].Decision)
		again, err2 := json.Marshal(in.Decide().Explained())
		if err1 != nil || err2 != nil || string(recorded) != string(again) {
			w.T.Errorf("a recomputed decision differs from the recorded one (%v, %v):\n%s\n%s", err1, err2, recorded, again)
		}
	}
}

// Fleet returns the fleet "fleet".
func (w *World) Fleet() *targettest.Memory { return w.Fleets["fleet"] }

// Source returns the source "source".
func (w *World) Source() *Source { return w.Sources["source"] }

// Add adds a target and an autoscaler with the same name. The autoscaler has an external metric
// whose value is the proposed count.
func (w *World) Add(name string, replicas int32, edit ...func(*config.Autoscaler)) {
	w.Fleet().Add(name, targettest.MemoryTarget{Replicas: replicas, Age: time.Hour})
	one := int64(1000)
	low := int32(1)
	a := &config.Autoscaler{
		Name:       name,
		Target:     w.Fleet().Ref(name),
		SyncPeriod: w.Config.Daemon.SyncPeriod,
		Spec: policy.Spec{
			MinReplicas: &low, MaxReplicas: 100,
			Metrics: []policy.MetricSpec{{
				Type: policy.ExternalMetric, Name: "queue",
				Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &one},
			}},
		},
		Inputs: []config.Input{{Source: "source", Query: name}},
	}
	for _, f := range edit {
		f(a)
	}
	a.Spec = policy.Default(a.Spec)
	w.Config.Autoscalers[name] = a
}

// AddWithValue calls Add and sets the value of the metric.
func (w *World) AddWithValue(name string, replicas int32, value float64, edit ...func(*config.Autoscaler)) {
	w.Add(name, replicas, edit...)
	w.Source().Value(name, value)
}

// Load returns a copy of the configuration.
func (w *World) Load(context.Context) (*config.Config, error) {
	if w.LoadErr != nil {
		return nil, w.LoadErr
	}
	c := *w.Config
	c.Autoscalers = map[string]*config.Autoscaler{}
	for name, a := range w.Config.Autoscalers {
		c.Autoscalers[name] = new(*a)
	}
	c.Fleets = map[string]config.Fleet{}
	for name := range w.Fleets {
		next := config.Fleet{Name: name, Kind: cmp.Or(w.Kind, "memory"), Config: FleetTable{w, nil}, Discover: w.Discover, LabelLimits: w.LabelLimits, Breaker: w.Breaker}
		if w.FleetConfig != nil {
			next.Config = w.FleetConfig()
		}
		c.Fleets[name] = next
	}
	c.Sources = map[string]config.Source{}
	for name := range w.Sources {
		next := config.Source{Name: name, Kind: "memory", Config: sourceTable{w, nil}}
		if w.SourceConfig != nil {
			next.Config = sourceTable{w, w.SourceConfig()}
		}
		c.Sources[name] = next
	}
	return &c, nil
}

// FleetTable is the configuration of a fleet. Tests set Given to make configurations differ.
type FleetTable struct {
	*World
	Given any
}

// SetDefaults implements targets.Config.
func (FleetTable) SetDefaults() {}

// Validate implements targets.Config.
func (FleetTable) Validate() []settings.FieldError { return nil }

// Build implements targets.Config.
func (c FleetTable) Build(name string, _ targets.Env) (targets.Fleet, error) {
	if c.FleetKind != nil {
		return c.FleetKind(c.Fleets[name]), nil
	}
	return c.Fleets[name], nil
}

// sourceTable is the configuration of a source. Tests set Given to make configurations differ.
type sourceTable struct {
	*World
	Given any
}

func (sourceTable) SetDefaults() {}

func (sourceTable) Validate() []settings.FieldError { return nil }

func (c sourceTable) Build(name string, _ sources.Env) (sources.Source, error) {
	if c.SourceKind != nil {
		return c.SourceKind(name), nil
	}
	return c.Sources[name], nil
}

// Start runs a daemon until Stop, or until the test ends.
func (w *World) Start() {
	ctx, cancel := context.WithCancel(w.T.Context())
	w.Cancel, w.Ended = cancel, make(chan error, 1)
	w.Daemon = daemon.New(daemon.Options{
		Load:   w.Load,
		Store:  w.Store,
		Log:    w.Log,
		DryRun: w.DryRun, Until: w.Until, StoreTimeout: w.StoreTimeout, Metrics: w.Metrics, Graph: w.Graph,
		Clock: clock.System{Wall: w.Wall, Boot: w.monotonic},
		Notify: func(state string) {
			w.notifying.Lock()
			defer w.notifying.Unlock()
			w.Notified = append(w.Notified, state)
		},
	})
	ended, running := w.Ended, w.Daemon
	go func() { ended <- running.Run(ctx) }()
	synctest.Wait()
}

// Stop stops the daemon. It checks that each evaluated autoscaler has a reason code.
func (w *World) Stop() {
	w.T.Helper()
	w.Cancel()
	if err := <-w.Ended; err != nil {
		w.T.Errorf("Run returned %v", err)
	}
	if err := w.missingReason(); err != nil {
		w.T.Error(err)
	}
}

// missingReason returns an error if an autoscaler was evaluated without a reason code.
func (w *World) missingReason() error {
	for _, a := range w.Daemon.Autoscalers() {
		if a.Decision != nil && a.Evaluation.Reason == "" {
			return fmt.Errorf("autoscaler %q has no reason after a pass", a.Name)
		}
	}
	return nil
}

// Advance waits until everything that is due within d has happened.
func (w *World) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Wall returns the time of the wall clock, including steps.
func (w *World) Wall() time.Time { return time.Now().Add(time.Duration(w.Step.Load())) }

// monotonic returns the boot ID and the time since the boot, which precedes the synctest bubble.
func (w *World) monotonic() (string, time.Duration) {
	return "boot-1", time.Since(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
}

// StepClock steps the wall clock.
func (w *World) StepClock(by time.Duration) { w.Step.Add(int64(by)) }

// Observed collects log entries of level info and above.
func (w *World) Observed() *observer.ObservedLogs {
	core, logs := observer.New(zapcore.InfoLevel)
	w.Log = zap.New(core)
	return logs
}

// Messages returns the messages of the entries and removes the entries.
func Messages(logs *observer.ObservedLogs) []string {
	var all []string
	for _, entry := range logs.TakeAll() {
		all = append(all, entry.Message)
	}
	return all
}

// Contains reports whether one of the texts contains part.
func Contains(all []string, part string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, part) })
}
