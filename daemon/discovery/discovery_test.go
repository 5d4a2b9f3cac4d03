package discovery_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// labels contains the labeled targets of a fleet that discovers targets.
type labels struct {
	mu    sync.Mutex
	found map[string]targets.Discovered
	calls int
	// result, if not nil, is called instead of returning found.
	result func(ctx context.Context) ([]targets.Discovered, error)
}

// set labels a target. given contains additional labels, each followed by its value.
func (l *labels) set(name string, given ...string) {
	all := map[string]string{
		"hpad.enable": "true", "hpad.max": "100",
		"hpad.metrics.0.type": "External", "hpad.metrics.0.name": "queue", "hpad.metrics.0.source": "source",
		"hpad.metrics.0.query": name, "hpad.metrics.0.average_value": "1",
	}
	for i := 0; i < len(given); i += 2 {
		all[given[i]] = given[i+1]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[name] = targets.Discovered{Name: name, Labels: all}
}

func (l *labels) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.found, name)
}

func (l *labels) discover(ctx context.Context) ([]targets.Discovered, error) {
	l.mu.Lock()
	l.calls++
	result, found := l.result, slices.Collect(maps.Values(l.found))
	l.mu.Unlock()
	if result != nil {
		return result(ctx)
	}
	return found, nil
}

func (l *labels) setResult(result func(ctx context.Context) ([]targets.Discovered, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result = result
}

// discovering is a fleet that implements Discoverer.
type discovering struct {
	*targettest.Memory
	labels *labels
}

func (f discovering) Discover(ctx context.Context) ([]targets.Discovered, error) {
	return f.labels.discover(ctx)
}

// newDiscoveringWorld returns a world with a fleet that discovers a target "web" with the given
// replicas. value is the value of its metric.
func newDiscoveringWorld(t *testing.T, replicas int32, value float64) (*daemontest.World, *labels) {
	w := daemontest.New(t)
	l := &labels{found: map[string]targets.Discovered{}}
	w.Discover = true
	w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return discovering{Memory: memory, labels: l} }
	w.Fleet().Add("web", targettest.MemoryTarget{Replicas: replicas, Age: time.Hour})
	w.Source().Value("web", value)
	l.set("web")
	return w, l
}

func names(w *daemontest.World) []string {
	var names []string
	for _, view := range w.Daemon.Autoscalers() {
		names = append(names, view.Name)
	}
	return names
}

const webName = "fleet/web"

// TestDiscovery checks that labels add an autoscaler, that it scales its target and follows
// changes, and that it is removed some time after its target.
func TestDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 3, 7)
		l.remove("web")
		w.AddWithValue("file", 2, 2)
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		if got := names(w); !slices.Equal(got, []string{"file"}) {
			t.Fatalf("autoscalers without labels = %v", got)
		}
		l.set("web")
		w.Advance(16 * time.Second)
		if got := names(w); !slices.Equal(got, []string{"file", webName}) {
			t.Fatalf("autoscalers with labels = %v", got)
		}
		start := time.Now()
		w.Advance(15 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 7 {
			t.Errorf("%d replicas, want 7", got)
		}
		view := w.View(webName)
		if view.Labels["hpad.max"] != "100" || view.Reference != webName || view.Spec.MaxReplicas != 100 || view.Discovery != nil {
			t.Errorf("view = %+v", view)
		}
		// A change is applied at the next discovery and evaluated immediately.
		l.set("web", "hpad.max", "5")
		w.Advance(16 * time.Second)
		if got := w.Fleet().Replicas("web"); got != 5 {
			t.Errorf("replicas with a maximum of 5 = %d: %v", got, w.Writes("web", start))
		}
		w.Fleet().Remove("web")
		l.remove("web")
		w.Advance(31 * time.Second)
		if got := names(w); len(got) != 2 {
			t.Errorf("autoscalers after two discoveries without the target = %v", got)
		}
		w.Advance(15 * time.Second)
		if got := names(w); !slices.Equal(got, []string{"file"}) {
			t.Errorf("autoscalers after three discoveries without the target = %v", got)
		}
		if got := w.Daemon.Discovered(); len(got) != 0 {
			t.Errorf("discovered autoscalers = %v", got)
		}
	})
}

// TestDiscoveryKeepsWindows checks that the window of a discovered autoscaler survives a restart
// without a working discovery, and a temporary absence of its target.
func TestDiscoveryKeepsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 8, 8)
		start := time.Now()
		w.Start()
		w.Advance(2 * time.Minute)
		w.Source().Value("web", 2)
		w.Advance(time.Minute)
		w.Stop()
		l.setResult(func(context.Context) ([]targets.Discovered, error) { return nil, errors.New("connection refused") })
		w.Start()
		defer w.Stop()
		if got := names(w); !slices.Equal(got, []string{webName}) {
			t.Fatalf("autoscalers after the restart = %v", got)
		}
		w.Advance(time.Minute)
		if got := w.Problems(); !slices.Equal(got, []string{"fleet fleet: discover targets by their labels: connection refused"}) {
			t.Errorf("problems = %q", got)
		}
		l.setResult(nil)
		w.Advance(30 * time.Second)
		if got := w.Problems(); len(got) != 0 {
			t.Errorf("problems = %q", got)
		}
		l.remove("web")
		w.Advance(time.Minute)
		if got := names(w); len(got) != 0 {
			t.Fatalf("autoscalers without the target = %v", got)
		}
		l.set("web")
		w.Advance(16 * time.Second)
		if got := names(w); len(got) != 1 || w.Fleet().Replicas("web") != 8 {
			t.Fatalf("autoscalers = %v, replicas = %d", got, w.Fleet().Replicas("web"))
		}
		w.Advance(10 * time.Minute)
		// The last recommendation of 8 was at 2m and is valid until 7m (R55).
		if diff := cmp.Diff([]string{"7m15s: 8>2"}, w.Writes("web", start)); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	})
}

// TestDiscoveryErrors checks that invalid labels are reported for their target, do not affect other
// targets, and leave the previous labels active, even after a restart.
func TestDiscoveryErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 3, 3)
		w.Fleet().Add("api", targettest.MemoryTarget{Replicas: 2, Age: time.Hour})
		w.Source().Value("api", 4)
		l.set("api", "hpad.max", "many")
		w.Start()
		w.Advance(time.Minute)
		problem := `hpad.max = "many": must be a whole number`
		want := []api.Discovered{
			{Reference: "fleet/api", State: api.DiscoveredInvalid, Problem: problem},
			{Reference: webName, State: api.DiscoveredActive, Autoscaler: webName},
		}
		if diff := cmp.Diff(want, w.Daemon.Discovered()); diff != "" {
			t.Errorf("discovered (-want +got):\n%s", diff)
		}
		if got := w.Problems(); !slices.Equal(got, []string{"target fleet/api: " + problem}) {
			t.Errorf("problems = %q", got)
		}
		l.set("api")
		w.Advance(30 * time.Second)
		if got := w.Fleet().Replicas("api"); got != 4 || len(w.Problems()) != 0 {
			t.Errorf("after the fix: replicas = %d, problems = %q", got, w.Problems())
		}
		l.set("api", "hpad.max", "3", "hpad.min", "4")
		w.Source().Value("api", 6)
		for range 2 {
			w.Advance(time.Minute)
			if got := w.Fleet().Replicas("api"); got != 6 {
				t.Errorf("replicas = %d with the labels before the error, want 6", got)
			}
			view := w.View("fleet/api")
			if view.Discovery == nil || view.Discovery.Problem != "hpad.max = \"3\": must be at least min_replicas, which is 4; the previous labels stay active" {
				t.Errorf("Discovery = %+v", view.Discovery)
			}
			w.Stop()
			w.Start()
		}
		defer w.Stop()
		w.Advance(time.Minute)
		// Unreadable labels are treated in the same way.
		l.mu.Lock()
		l.found["api"] = targets.Discovered{Name: "api", Problem: "containers carry different labels"}
		l.mu.Unlock()
		w.Advance(time.Minute)
		if got := w.Problems(); !slices.Equal(got, []string{"target fleet/api: containers carry different labels; the previous labels stay active"}) {
			t.Errorf("problems = %q", got)
		}
		l.set("api", "hpad.enable", "false")
		w.Advance(30 * time.Second)
		if got := names(w); !slices.Equal(got, []string{webName}) || len(w.Problems()) != 0 {
			t.Errorf("after the labels were disabled: autoscalers = %v, problems = %q", got, w.Problems())
		}
	})
}

// TestDiscoveryUnderTheConfiguration checks that a configured autoscaler takes precedence over
// labels of the same target, that the conflict is reported, and that a reload changes the names
// that labels can use.
func TestDiscoveryUnderTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 3, 3)
		w.Add("file", 3, func(a *config.Autoscaler) {
			a.Target = w.Fleet().Ref("web")
			a.Spec.MaxReplicas = 4
		})
		w.Source().Value("file", 9)
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		if got := names(w); !slices.Equal(got, []string{"file"}) || w.Fleet().Replicas("web") != 4 {
			t.Fatalf("autoscalers = %v, replicas = %d", got, w.Fleet().Replicas("web"))
		}
		want := &api.Discovered{Reference: webName, State: api.DiscoveredOverridden, Autoscaler: "file"}
		if diff := cmp.Diff(want, w.View("file").Discovery); diff != "" {
			t.Errorf("view (-want +got):\n%s", diff)
		}
		delete(w.Config.Autoscalers, "file")
		w.Source().Value("web", 5)
		w.Reload()
		w.Advance(15 * time.Second)
		if got := names(w); !slices.Equal(got, []string{webName}) || w.Fleet().Replicas("web") != 5 {
			t.Fatalf("without the configured autoscaler: autoscalers = %v, replicas = %d", got, w.Fleet().Replicas("web"))
		}
		// The labels name a source of the next configuration.
		l.set("web", "hpad.metrics.0.source", "second")
		w.Advance(30 * time.Second)
		if got := w.Problems(); len(got) != 1 || !strings.Contains(got[0], `does not exist`) {
			t.Errorf("problems = %q", got)
		}
		w.Sources["second"] = w.Source()
		w.Reload()
		if got := w.Problems(); len(got) != 0 {
			t.Errorf("problems = %q", got)
		}
		w.Discover = false
		w.FleetConfig = func() targets.Config { return daemontest.FleetTable{World: w, Given: "another"} }
		w.Reload()
		if got := names(w); len(got) != 0 || len(w.Daemon.Discovered()) != 0 {
			t.Errorf("without discovery: autoscalers = %v, discovered = %v", got, w.Daemon.Discovered())
		}
	})
}

// TestDiscoveryFails checks that a discovery that hangs or panics does not remove autoscalers or
// delay passes, and that it is reported.
func TestDiscoveryFails(t *testing.T) {
	for name, result := range map[string]func(context.Context) ([]targets.Discovered, error){
		"hangs": func(ctx context.Context) ([]targets.Discovered, error) {
			<-ctx.Done()
			time.Sleep(time.Hour) // ignores its context
			return nil, nil
		},
		"panics": func(context.Context) ([]targets.Discovered, error) { panic("no map") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l := newDiscoveringWorld(t, 3, 3)
				w.Start()
				w.Advance(time.Minute)
				l.setResult(result)
				w.Source().Value("web", 6)
				w.Advance(2 * time.Minute)
				if got := w.Fleet().Replicas("web"); got != 6 {
					t.Errorf("%d replicas, want 6", got)
				}
				if got := w.Problems(); len(got) != 1 || !strings.HasPrefix(got[0], "fleet fleet: discover targets by their labels: ") {
					t.Errorf("problems = %q", got)
				}
				if late := w.View(webName).Evaluation.Late; late != 0 {
					t.Errorf("%d late passes, want 0", late)
				}
				l.setResult(nil)
				w.Advance(2 * time.Hour)
				if got := w.Problems(); len(got) != 0 {
					t.Errorf("problems = %q", got)
				}
				w.Stop()
			})
		})
	}
}

// TestDiscoveryLimit checks the limit for discovered autoscalers of a fleet: a new autoscaler never
// replaces an existing autoscaler, even after a restart, but it can take the place of a removed
// one.
func TestDiscoveryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 3, 3)
		w.LabelLimits.Autoscalers = 2
		for _, name := range []string{"a", "b", "x"} {
			w.Fleet().Add(name, targettest.MemoryTarget{Replicas: 1, Age: time.Hour})
			w.Source().Value(name, 1)
		}
		l.set("x")
		w.Start()
		w.Advance(time.Minute)
		refused := "2 targets of the fleet already have an autoscaler from labels (fleets.fleet.label_limits.autoscalers = 2)"
		for _, name := range []string{"b", "a"} {
			l.set(name)
			w.Advance(time.Minute)
			if got := names(w); !slices.Equal(got, []string{webName, "fleet/x"}) {
				t.Errorf("autoscalers with %s = %q, want the existing ones", name, got)
			}
			w.Stop()
			w.Start()
		}
		want := []api.Discovered{
			{Reference: "fleet/a", State: api.DiscoveredInvalid, Problem: refused},
			{Reference: "fleet/b", State: api.DiscoveredInvalid, Problem: refused},
			{Reference: webName, State: api.DiscoveredActive, Autoscaler: webName},
			{Reference: "fleet/x", State: api.DiscoveredActive, Autoscaler: "fleet/x"},
		}
		w.Advance(time.Minute)
		if diff := cmp.Diff(want, w.Daemon.Discovered()); diff != "" {
			t.Errorf("discovered (-want +got):\n%s", diff)
		}
		l.remove("x")
		w.Advance(time.Minute)
		if got := names(w); !slices.Equal(got, []string{"fleet/a", webName}) {
			t.Errorf("autoscalers after x was removed = %q, want a instead", got)
		}
		w.Stop()
	})
}

// TestLongTargetName checks that discovered targets with names of 33,000 bytes get no autoscaler,
// and that no output contains the full names.
func TestLongTargetName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newDiscoveringWorld(t, 3, 7)
		long := strings.Repeat("job", 11_000)
		l.set(long + "1")
		l.set(long + "2")
		l.set(long+"3", "hpad.enable", "false")
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		if got := names(w); !slices.Equal(got, []string{webName}) {
			t.Errorf("autoscalers = %.500v, want %s", got, webName)
		}
		if got := w.Fleet().Replicas("web"); got != 7 {
			t.Errorf("replicas of the other target = %d, want 7", got)
		}
		problems := w.Problems()
		if len(problems) != 2 || !strings.Contains(problems[0], "its name has 33001 bytes; the limit for targets with labels is 512") || len(problems[0]) > 300 || problems[0] == problems[1] {
			t.Errorf("problems = %.1000q", problems)
		}
		l.remove(long + "1")
		l.remove(long + "2")
		w.Advance(time.Minute)
		if got := w.Problems(); len(got) > 0 {
			t.Errorf("problems without these targets = %.1000q", got)
		}
	})
}
