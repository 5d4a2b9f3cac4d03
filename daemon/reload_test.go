package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestAutoscalerSeriesFollowTheConfiguration checks that a reload can remove the series of
// autoscalers from the metrics and restore them.
func TestAutoscalerSeriesFollowTheConfiguration(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		registry := prometheus.NewRegistry()
		w.Metrics = metrics.New(registry)
		w.Start()
		w.Advance(time.Minute)
		for _, on := range []bool{true, false, true} {
			w.Config.Daemon.AutoscalerSeries = on
			w.Reload()
			var text strings.Builder
			if err := w.Metrics.Exposition(registry).WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(text.String(), `hpad_autoscaler_failing{autoscaler="q"} 0`); got != on {
				t.Errorf("autoscaler_series = %v: series exist: %v", on, got)
			}
			if !strings.Contains(text.String(), "hpad_autoscalers 1\n") {
				t.Errorf("autoscaler_series = %v: the number of autoscalers is missing", on)
			}
		}
		w.Stop()
	})
}

func TestReload(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("stays", 3)
		w.Add("changes", 9)
		w.Add("goes", 3)
		for _, name := range []string{"stays", "changes", "goes", "comes"} {
			w.Source().Value(name, 3)
		}
		start := time.Now()
		w.Start()
		w.Advance(64 * time.Second)

		w.LoadErr = errors.New("hpad.toml:3: unknown key")
		if _, err := w.Daemon.Reload(t.Context()); !errors.Is(err, w.LoadErr) {
			t.Errorf("Reload of an invalid file = %v", err)
		}
		if got := len(w.Daemon.Autoscalers()); got != 3 {
			t.Errorf("%d autoscalers after a failed reload, want 3", got)
		}

		w.LoadErr = nil
		delete(w.Config.Autoscalers, "goes")
		w.Add("comes", 3)
		changed := w.Config.Autoscalers["changes"]
		changed.Spec.MaxReplicas = 50
		queries := map[string]int{}
		for _, name := range []string{"stays", "changes", "goes"} {
			queries[name] = w.Source().Count(name)
		}
		w.Reload()
		w.Advance(time.Second)
		if got := w.Source().Count("stays"); got != queries["stays"] {
			t.Errorf("an unchanged autoscaler was evaluated before its tick")
		}
		if got := w.Source().Count("changes"); got != queries["changes"]+1 {
			t.Errorf("immediate evaluations of a changed autoscaler = %d, want 1 (R23)", got-queries["changes"])
		}
		if got := w.Source().Count("comes"); got != 1 {
			t.Errorf("immediate evaluations of a new autoscaler = %d, want 1 (R23)", got)
		}
		if _, ok := w.Daemon.Autoscaler("goes"); ok {
			t.Errorf("the removed autoscaler still exists")
		}
		w.Advance(15 * time.Second)
		if _, ok := w.Store.Record("goes"); ok {
			t.Errorf("the record of the removed autoscaler still exists (R21)")
		}
		if got := w.Source().Count("goes"); got != queries["goes"] {
			t.Errorf("the removed autoscaler was evaluated")
		}
		// R21: a change to the spec does not reset windows. The initial recommendation of 9 is
		// valid until 5m.
		w.Advance(5 * time.Minute)
		if diff := cmp.Diff([]string{"5m15s: 9>3"}, w.Writes("changes", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if !slices.ContainsFunc(w.Notified, func(s string) bool { return strings.HasPrefix(s, "RELOADING=1\nMONOTONIC_USEC=") }) {
			t.Errorf("the service manager received %q, want RELOADING", w.Notified)
		}
		w.Stop()
		if last := w.Notified[len(w.Notified)-1]; last != "STOPPING=1" {
			t.Errorf("last state sent to the service manager = %q", last)
		}
	})
}

// lifecycle is a source that records its starts and closes.
type lifecycle struct {
	*daemontest.Source
	name     string
	log      *[]string
	succeeds bool
	// takes is the duration of Start and of Close.
	takes time.Duration
	// fails is the error returned by Start before the time until, or at any time if until is zero.
	fails error
	until time.Time
}

func (l *lifecycle) Start(context.Context) error {
	*l.log = append(*l.log, "start "+l.name)
	time.Sleep(l.takes)
	if l.until.IsZero() || time.Now().Before(l.until) {
		return l.fails
	}
	return nil
}

func (l *lifecycle) Close() error {
	time.Sleep(l.takes)
	*l.log = append(*l.log, "close "+l.name)
	return nil
}

func (l *lifecycle) Succeed(older any) bool {
	*l.log = append(*l.log, l.name+" succeeds "+older.(*lifecycle).name)
	return l.succeeds
}

func TestReloadReplacesAdapters(t *testing.T) {
	for _, test := range []struct {
		name     string
		succeeds bool
		want     []string
	}{
		{"adapter that can take over", true, []string{"start a", "b succeeds a", "start b", "close a", "close b"}},
		{"adapter that cannot take over", false, []string{"start a", "b succeeds a", "close a", "start b", "close b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log []string
				w := daemontest.New(t)
				w.AddWithValue("q", 3, 3)
				a := &lifecycle{Source: w.Source(), name: "a", log: &log, succeeds: test.succeeds}
				b := &lifecycle{Source: w.Source(), name: "b", log: &log, succeeds: test.succeeds}
				current := a
				w.SourceKind = func(string) sources.Source { return current }
				w.SourceConfig = func() any { return current.name }
				w.Start()
				w.Advance(time.Minute)
				current = b
				w.Reload()
				w.Advance(time.Minute)
				w.Reload() // without a change
				w.Stop()
				if diff := cmp.Diff(test.want, log); diff != "" {
					t.Errorf("lives (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestStartThatFails checks that a source that cannot be started is logged, does not prevent other
// scaling, and is retried.
func TestStartThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		w := daemontest.New(t)
		w.Log = zap.NewNop() // the test causes an error
		w.AddWithValue("q", 3, 5)
		w.Sources["another"] = daemontest.NewSource()
		broken := &lifecycle{Source: w.Sources["another"], name: "another", log: &log, fails: errors.New("directory is locked"), until: time.Now().Add(25 * time.Second)}
		w.SourceKind = func(name string) sources.Source {
			if name == "another" {
				return broken
			}
			return w.Source()
		}
		reported := func() bool {
			return slices.ContainsFunc(w.Daemon.Readiness().Problems, func(p api.Problem) bool {
				return p.Subject == "source another" && strings.Contains(p.Message, broken.fails.Error())
			})
		}
		w.Start()
		w.Advance(20 * time.Second)
		if got := w.Fleet().Replicas("q"); got != 5 {
			t.Errorf("replicas with a source that did not start = %d, want 5", got)
		}
		if !reported() {
			t.Errorf("problems = %v, want the problem of the source", w.Daemon.Readiness().Problems)
		}
		w.Advance(adapters.StartRetry)
		if problems := w.Daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems after the start = %v", problems)
		}
		w.Stop()
		if diff := cmp.Diff([]string{"start another", "start another", "start another", "start another", "close another"}, log); diff != "" {
			t.Errorf("lives (-want +got):\n%s", diff)
		}
	})
}

// closingFleet fails the test if it is written to after Close.
type closingFleet struct {
	*targettest.Memory
	t      *testing.T
	closed atomic.Bool
}

func (f *closingFleet) Close() error {
	f.closed.Store(true)
	return nil
}

func (f *closingFleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	if f.closed.Load() {
		f.t.Error("a replaced fleet was closed before a pass wrote through it")
	}
	return f.Memory.SetReplicas(ctx, ref, n, version, reason)
}

// TestReplacedFleetOutlivesItsPasses checks that a pass can still write through its fleet if a
// reload replaces that fleet during the pass.
func TestReplacedFleetOutlivesItsPasses(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("q", 3, 3)
		w.FleetKind = func(m *targettest.Memory) targets.Fleet { return &closingFleet{Memory: m, t: t} }
		generation := 1
		w.FleetConfig = func() targets.Config { return daemontest.FleetTable{World: w, Given: generation} }
		w.Start()
		w.Advance(29 * time.Second)
		w.Source().Value("q", 6)
		w.Store.SlowDown(3 * time.Second) // between the read and the write
		w.Advance(2 * time.Second)
		generation = 2
		w.Reload()
		w.Advance(time.Minute)
		if got := w.Fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6", got)
		}
		w.Stop()
	})
}

// TestSuspiciousConfiguration checks that a suspicious configuration is logged when it is added or
// changed, and only then, and that each reload returns it.
func TestSuspiciousConfiguration(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		logs := w.Observed()
		doubt := func(detail string) func(*config.Autoscaler) {
			return func(a *config.Autoscaler) {
				a.Warnings = []config.Error{{File: "hpad.toml", Line: 3, Key: "autoscalers.a.metrics[0].value", Detail: detail}}
			}
		}
		w.Add("a", 1, doubt("is a total"))
		w.Add("b", 1)
		w.Start()
		defer w.Stop()
		warned := func() (errs []string) {
			for _, entry := range logs.FilterMessage("suspicious configuration").All() {
				errs = append(errs, fmt.Sprint(entry.ContextMap()["autoscaler"], ": ", entry.ContextMap()["err"]))
			}
			return errs
		}
		if got, want := warned(), []string{"a: hpad.toml:3: autoscalers.a.metrics[0].value: is a total"}; !slices.Equal(got, want) {
			t.Errorf("warnings after the start = %q, want %q", got, want)
		}
		logs.TakeAll()
		ctx := api.WithWarnings(new(http.Request).WithContext(t.Context())).Context()
		reload := func() {
			t.Helper()
			if _, err := w.Daemon.Reload(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		reload()
		if got := logs.FilterMessage("suspicious configuration").Len(); got != 0 {
			t.Errorf("a reload without a change logged %d warnings, want 0", got)
		}
		w.Add("a", 1, doubt("is another total"), func(a *config.Autoscaler) { a.Spec.MaxReplicas = 7 })
		reload()
		if got := logs.FilterMessage("suspicious configuration").Len(); got != 1 {
			t.Errorf("a reload with a change logged %d warnings, want 1", got)
		}
		w.Add("a", 1, func(a *config.Autoscaler) {
			a.Warnings = []config.Error{{File: "hpad.toml", Line: 3, Key: "autoscalers.a.max_replicas", Detail: "cannot be reached", Unworkable: true}}
			a.Spec.MaxReplicas = 8
		})
		reload()
		if got := logs.FilterMessage("unworkable configuration").Len(); got != 1 {
			t.Errorf("a reload with an unworkable autoscaler logged %d warnings, want 1", got)
		}
		if got, want := api.Warnings(ctx), []string{
			"hpad.toml:3: autoscalers.a.metrics[0].value: is a total", "hpad.toml:3: autoscalers.a.metrics[0].value: is another total",
			"hpad.toml:3: autoscalers.a.max_replicas: cannot be reached",
		}; !slices.Equal(got, want) {
			t.Errorf("the response has the warnings %q, want %q", got, want)
		}
	})
}

// TestReloadKeepsDefinitions checks that a reload reuses unchanged definitions and does not store
// them twice.
func TestReloadKeepsDefinitions(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("stays", 3)
		w.Add("changes", 3)
		w.Start()
		w.Advance(time.Second)
		reload := func() (stays, changes *round.Definition) {
			for _, a := range w.Config.Autoscalers { // like files that are read again
				a.Inputs, a.Spec.Metrics = slices.Clone(a.Inputs), slices.Clone(a.Spec.Metrics)
			}
			w.Reload()
			g := w.Daemon.Generation()
			for name, a := range g.Autoscalers {
				if &g.Config.Autoscalers[name].Inputs[0] != &w.Daemon.File().Autoscalers[name].Inputs[0] ||
					g.Config.Autoscalers[name].Spec.MaxReplicas != a.Definition().Spec.MaxReplicas {
					t.Errorf("%s has two definitions", name)
				}
			}
			return g.Autoscalers["stays"].Definition(), g.Autoscalers["changes"].Definition()
		}
		stays, changes := reload()
		edited := w.Config.Autoscalers["changes"]
		edited.Spec.MaxReplicas = 50
		if a, b := reload(); a != stays || b == changes || b.Spec.MaxReplicas != 50 {
			t.Errorf("after one change: unchanged definition reused: %t, changed definition replaced: %t", a == stays, b != changes)
		} else if &a.Inputs[0] != &w.Daemon.Generation().Config.Autoscalers["stays"].Inputs[0] {
			t.Error("an unchanged autoscaler is stored twice")
		}
		for name, change := range map[string]func(){
			"settings": func() { w.Config.Daemon.Tolerance = 0.5 },
			"strict":   func() { w.Config.Daemon.Compat = "strict" },
			"window":   func() { w.Config.Daemon.DownscaleStabilization = time.Minute },
			"source":   func() { w.SourceConfig = func() any { return "another" } },
			"fleet": func() {
				w.FleetConfig = func() targets.Config { return daemontest.FleetTable{World: w, Given: "another"} }
			},
		} {
			before, _ := reload()
			change()
			if after, _ := reload(); after == before {
				t.Errorf("%s: the definition did not change", name)
			}
		}
	})
}
