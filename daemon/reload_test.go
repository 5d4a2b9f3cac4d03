package daemon

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
	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

func TestReload(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("stays", 3)
		w.queue("changes", 9)
		w.queue("goes", 3)
		for _, name := range []string{"stays", "changes", "goes", "comes"} {
			w.source().value(name, 3)
		}
		start := time.Now()
		w.start()
		w.advance(64 * time.Second)

		w.loadErr = errors.New("hpad.toml:3: unknown key")
		if _, err := w.daemon.Reload(t.Context()); !errors.Is(err, w.loadErr) {
			t.Errorf("Reload of an invalid file = %v", err)
		}
		if got := len(w.daemon.Autoscalers()); got != 3 {
			t.Errorf("%d autoscalers after a failed reload, want 3", got)
		}

		w.loadErr = nil
		delete(w.config.Autoscalers, "goes")
		w.queue("comes", 3)
		changed := w.config.Autoscalers["changes"]
		changed.Spec.MaxReplicas = 50
		w.config.Autoscalers["changes"] = changed
		queries := map[string]int{}
		for _, name := range []string{"stays", "changes", "goes"} {
			queries[name] = w.source().count(name)
		}
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		if got := w.source().count("stays"); got != queries["stays"] {
			t.Errorf("an unchanged autoscaler was evaluated before its tick")
		}
		if got := w.source().count("changes"); got != queries["changes"]+1 {
			t.Errorf("immediate evaluations of a changed autoscaler = %d, want 1 (R23)", got-queries["changes"])
		}
		if got := w.source().count("comes"); got != 1 {
			t.Errorf("immediate evaluations of a new autoscaler = %d, want 1 (R23)", got)
		}
		if _, ok := w.daemon.Autoscaler("goes"); ok {
			t.Errorf("the removed autoscaler still exists")
		}
		w.advance(15 * time.Second)
		if _, ok := w.store.record("goes"); ok {
			t.Errorf("the record of the removed autoscaler still exists (R21)")
		}
		if got := w.source().count("goes"); got != queries["goes"] {
			t.Errorf("the removed autoscaler was evaluated")
		}
		// R21: a change to the spec does not reset windows. The initial recommendation of 9 is
		// valid until 5m.
		w.advance(5 * time.Minute)
		if diff := cmp.Diff([]string{"5m15s: 9>3"}, w.writes("changes", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		if !slices.ContainsFunc(w.notified, func(s string) bool { return strings.HasPrefix(s, "RELOADING=1\nMONOTONIC_USEC=") }) {
			t.Errorf("the service manager received %q, want RELOADING", w.notified)
		}
		w.stop()
		if last := w.notified[len(w.notified)-1]; last != "STOPPING=1" {
			t.Errorf("last state sent to the service manager = %q", last)
		}
	})
}

// lifecycle is a source that records its starts and closes.
type lifecycle struct {
	*memorySource
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
				w := newWorld(t)
				w.fed("q", 3, 3)
				a := &lifecycle{memorySource: w.source(), name: "a", log: &log, succeeds: test.succeeds}
				b := &lifecycle{memorySource: w.source(), name: "b", log: &log, succeeds: test.succeeds}
				current := a
				w.sourceKind = func(string) sources.Source { return current }
				w.sourceConfig = func() any { return current.name }
				w.start()
				w.advance(time.Minute)
				current = b
				if _, err := w.daemon.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.advance(time.Minute)
				if _, err := w.daemon.Reload(t.Context()); err != nil { // without a change
					t.Fatal(err)
				}
				w.stop()
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
		w := newWorld(t)
		w.log = zap.NewNop() // the test causes an error
		w.fed("q", 3, 5)
		w.sources["another"] = newMemorySource()
		broken := &lifecycle{memorySource: w.sources["another"], name: "another", log: &log, fails: errors.New("directory is locked"), until: time.Now().Add(25 * time.Second)}
		w.sourceKind = func(name string) sources.Source {
			if name == "another" {
				return broken
			}
			return w.source()
		}
		reported := func() bool {
			return slices.ContainsFunc(w.daemon.Readiness().Problems, func(p api.Problem) bool {
				return p.Subject == "source another" && strings.Contains(p.Message, broken.fails.Error())
			})
		}
		w.start()
		w.advance(20 * time.Second)
		if got := w.fleet().Replicas("q"); got != 5 {
			t.Errorf("replicas with a source that did not start = %d, want 5", got)
		}
		if !reported() {
			t.Errorf("problems = %v, want the problem of the source", w.daemon.Readiness().Problems)
		}
		w.advance(adapters.StartRetry)
		if problems := w.daemon.Readiness().Problems; len(problems) != 0 {
			t.Errorf("problems after the start = %v", problems)
		}
		w.stop()
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
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("q", 3, 3)
		w.fleetKind = func(m *targettest.Memory) targets.Fleet { return &closingFleet{Memory: m, t: t} }
		generation := 1
		w.fleetConfig = func() targets.Config { return fleetTable{w, generation} }
		w.start()
		w.advance(29 * time.Second)
		w.source().value("q", 6)
		w.store.slowDown(3 * time.Second) // between the read and the write
		w.advance(2 * time.Second)
		generation = 2
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		if got := w.fleet().Replicas("q"); got != 6 {
			t.Errorf("replicas = %d, want 6", got)
		}
		w.stop()
	})
}

// TestSuspiciousConfiguration checks that a suspicious configuration is logged when it is added or
// changed, and only then, and that each reload returns it.
func TestSuspiciousConfiguration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		logs := w.observed()
		doubt := func(detail string) func(*config.Autoscaler) {
			return func(a *config.Autoscaler) {
				a.Warnings = []config.Error{{File: "hpad.toml", Line: 3, Key: "autoscalers.a.metrics[0].value", Detail: detail}}
			}
		}
		w.queue("a", 1, doubt("is a total"))
		w.queue("b", 1)
		w.start()
		defer w.stop()
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
			if _, err := w.daemon.Reload(ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		reload()
		if got := logs.FilterMessage("suspicious configuration").Len(); got != 0 {
			t.Errorf("a reload without a change logged %d warnings, want 0", got)
		}
		w.queue("a", 1, doubt("is another total"), func(a *config.Autoscaler) { a.Spec.MaxReplicas = 7 })
		reload()
		if got := logs.FilterMessage("suspicious configuration").Len(); got != 1 {
			t.Errorf("a reload with a change logged %d warnings, want 1", got)
		}
		w.queue("a", 1, func(a *config.Autoscaler) {
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
	inWorld(t, func(t *testing.T, w *world) {
		w.queue("stays", 3)
		w.queue("changes", 3)
		w.start()
		w.advance(time.Second)
		reload := func() (stays, changes *round.Definition) {
			for _, a := range w.config.Autoscalers { // like files that are read again
				a.Inputs, a.Spec.Metrics = slices.Clone(a.Inputs), slices.Clone(a.Spec.Metrics)
			}
			if _, err := w.daemon.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			g := w.daemon.Generation()
			for name, a := range g.Autoscalers {
				if &g.Config.Autoscalers[name].Inputs[0] != &w.daemon.File().Autoscalers[name].Inputs[0] ||
					g.Config.Autoscalers[name].Spec.MaxReplicas != a.Definition().Spec.MaxReplicas {
					t.Errorf("%s has two definitions", name)
				}
			}
			return g.Autoscalers["stays"].Definition(), g.Autoscalers["changes"].Definition()
		}
		stays, changes := reload()
		edited := w.config.Autoscalers["changes"]
		edited.Spec.MaxReplicas = 50
		w.config.Autoscalers["changes"] = edited
		if a, b := reload(); a != stays || b == changes || b.Spec.MaxReplicas != 50 {
			t.Errorf("after one change: unchanged definition reused: %t, changed definition replaced: %t", a == stays, b != changes)
		} else if &a.Inputs[0] != &w.daemon.Generation().Config.Autoscalers["stays"].Inputs[0] {
			t.Error("an unchanged autoscaler is stored twice")
		}
		for name, change := range map[string]func(){
			"settings": func() { w.config.Daemon.Tolerance = 0.5 },
			"strict":   func() { w.config.Daemon.Compat = "strict" },
			"window":   func() { w.config.Daemon.DownscaleStabilization = time.Minute },
			"source":   func() { w.sourceConfig = func() any { return "another" } },
			"fleet":    func() { w.fleetConfig = func() targets.Config { return fleetTable{w, "another"} } },
		} {
			before, _ := reload()
			change()
			if after, _ := reload(); after == before {
				t.Errorf("%s: the definition did not change", name)
			}
		}
	})
}
