// Package world runs the daemon inside the test process, with real fleets and with a Prometheus
// server whose values the test sets.
package world

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// Patience is the time limit for results that take seconds on an idle host. On a loaded host, reads
// and writes often exceed their own limits, which are short because the sync period is 1 s.
const Patience = 3 * time.Minute

// World is a daemon and its stored state. Its methods must be called from the test's goroutine.
type World struct {
	*daemon.Daemon
	t    testing.TB
	dir  string
	wrap func(name string, fleet targets.Fleet) targets.Fleet
	stop func()
	// text is the complete configuration. If dry is true, the daemon runs in dry-run mode.
	text     atomic.Pointer[string]
	dry      bool
	measured *metrics.Exposition
}

// New starts a daemon with a sync period of 1 s. text is the configuration without the [daemon]
// table.
func New(t testing.TB, text string) *World {
	t.Helper()
	return NewWrapped(t, text, nil)
}

// NewWrapped is like New, but wraps all fleets with wrap. If wrap is nil, the fleets are not
// wrapped.
func NewWrapped(t testing.TB, text string, wrap func(name string, fleet targets.Fleet) targets.Fleet) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), wrap: wrap}
	w.run(text)
	return w
}

// NewDryRun is like New, but in dry-run mode. Restart ends the dry run.
func NewDryRun(t testing.TB, text string) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), dry: true}
	w.run(text)
	return w
}

// Stop stops the daemon and keeps its state for Restart.
func (w *World) Stop() {
	w.t.Helper()
	w.stop()
}

// Restart stops the daemon if it is running, and starts a new daemon with the same state.
func (w *World) Restart(text string) {
	w.t.Helper()
	w.stop()
	w.dry = false
	w.run(text)
}

// configure sets the configuration that the next start or reload uses.
func (w *World) configure(text string) {
	w.t.Helper()
	text = fmt.Sprintf("[daemon]\nsync_period = \"1s\"\nstate_dir = %q\ncpu_initialization_period = \"1s\"\ninitial_readiness_delay = \"1s\"\n%s",
		filepath.Join(w.dir, "state"), text)
	if _, err := config.Parse("hpad.toml", []byte(text)); err != nil {
		w.t.Fatal(err)
	}
	w.text.Store(&text)
}

func (w *World) run(text string) {
	w.t.Helper()
	w.configure(text)
	store, err := state.Open(filepath.Join(w.dir, "state"), state.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // like "hpad run"
	measured := metrics.New(registry)
	w.measured = measured.Exposition(registry)
	w.Daemon = daemon.New(daemon.Options{
		Load: func(context.Context) (*config.Config, error) {
			c, err := config.Parse("hpad.toml", []byte(*w.text.Load()))
			if err == nil && w.wrap != nil {
				wrapFleets(c, &w.wrap)
			}
			return c, err
		},
		Store: store, Metrics: measured, DryRun: w.dry,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run of the daemon = %v", err)
		}
		if err := store.Close(); err != nil {
			w.t.Errorf("close the store: %v", err)
		}
	})
	w.t.Cleanup(func() {
		if w.t.Failed() {
			for _, a := range w.Autoscalers() {
				w.t.Logf("%s at the end: %+v\n%s", a.Name, a.Status, a.Evaluation.Error)
			}
		}
		w.stop()
	})
	wait.For(w.t, Patience, "first pass of every autoscaler", func() (string, bool) {
		r := w.Readiness()
		return fmt.Sprintf("%+v", r), r.Ready
	})
}

// View returns the current state of an autoscaler.
func (w *World) View(name string) api.Autoscaler {
	w.t.Helper()
	a, ok := w.Autoscaler(name)
	if !ok {
		w.t.Fatalf("autoscaler %q does not exist", name)
	}
	return a
}

// Condition returns a condition of an autoscaler, or the zero value if it is not set.
func (w *World) Condition(name string, kind policy.ConditionType) policy.Condition {
	w.t.Helper()
	for _, c := range w.View(name).Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return policy.Condition{}
}

// Await waits until a condition has the given reason and its message contains the given words.
func (w *World) Await(name string, kind policy.ConditionType, reason, words string) policy.Condition {
	w.t.Helper()
	var c policy.Condition
	wait.For(w.t, Patience, fmt.Sprintf("%s of %q with reason %s and %q", kind, name, reason, words), func() (string, bool) {
		c = w.Condition(name, kind)
		return fmt.Sprintf("it is %+v", c), c.Reason == reason && strings.Contains(c.Message, words)
	})
	return c
}

// Told returns the number of events that have one of the given reasons.
func Told(events []api.Event, reasons ...string) int64 {
	total := int64(0)
	for _, event := range events {
		if slices.Contains(reasons, event.Reason) {
			total += event.Count
		}
	}
	return total
}

// AwaitEvent waits for an event with the given reason.
func (w *World) AwaitEvent(name, reason string) {
	w.t.Helper()
	wait.For(w.t, Patience, fmt.Sprintf("event %s of %q", reason, name), func() (string, bool) {
		events := w.View(name).Events
		return fmt.Sprintf("events are %+v", events), Told(events, reason) > 0
	})
}

// Passes waits until an autoscaler has been evaluated n more times.
func (w *World) Passes(name string, n int) {
	w.t.Helper()
	seen, last := 0, w.View(name).Evaluation.Last
	wait.For(w.t, Patience, fmt.Sprintf("%d passes of %q", n, name), func() (string, bool) {
		if now := w.View(name).Evaluation.Last; now.After(last) {
			last = now
			seen++
		}
		return fmt.Sprintf("%d are complete", seen), seen >= n
	})
}

// Metric returns the sum of all series of a metric that have the given labels, or 0. The value of
// a histogram is its number of observations.
func (w *World) Metric(name string, labels prometheus.Labels) float64 {
	w.t.Helper()
	sum := 0.0
	for _, family := range w.Families() {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			has := 0
			for _, pair := range series.GetLabel() {
				if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
					has++
				}
			}
			if has == len(labels) {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// Families returns all metrics of the daemon.
func (w *World) Families() []*dto.MetricFamily {
	w.t.Helper()
	families, err := w.measured.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	return families
}

// Handler returns the daemon's HTTP handler with write access.
func (w *World) Handler() http.Handler {
	return api.NewHandler(w.Daemon, w.measured, api.Full)
}

// AwaitOff waits until the readiness endpoint reports that an autoscaler is off. If off is false,
// it waits until the endpoint no longer reports this.
func (w *World) AwaitOff(name string, off bool) {
	w.t.Helper()
	told := api.Problem{Subject: "autoscaler " + name, Message: api.Disabled}
	wait.For(w.t, Patience, fmt.Sprintf("report that %q is off: %v", name, off), func() (string, bool) {
		r := w.Readiness()
		return fmt.Sprintf("it is %+v", r), r.Ready && slices.Contains(r.Problems, told) == off
	})
}

// wrapFleets replaces each fleet in a configuration with the result of wrap.
func wrapFleets(c *config.Config, wrap *func(name string, fleet targets.Fleet) targets.Fleet) {
	for name, fleet := range c.Fleets {
		fleet.Config = wrapped{fleet.Config, wrap}
		c.Fleets[name] = fleet
	}
}

// wrapped wraps the fleets that a configuration table builds. wrap is a pointer because functions
// are not comparable, and hpad compares tables.
type wrapped struct {
	targets.Config
	wrap *func(name string, fleet targets.Fleet) targets.Fleet
}

// Build builds the fleet and wraps it.
func (w wrapped) Build(name string, env targets.Env) (targets.Fleet, error) {
	fleet, err := w.Config.Build(name, env)
	if err != nil {
		return nil, err
	}
	return (*w.wrap)(name, fleet), nil
}
