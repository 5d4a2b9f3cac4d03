package round_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// falsifying is a fleet whose readings a test can falsify.
type falsifying struct {
	*targettest.Memory
	change *atomic.Pointer[func(*targets.Reading)]
}

func (f falsifying) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	readings, err := f.Memory.Snapshot(ctx, refs)
	if change := f.change.Load(); change != nil {
		for ref, reading := range readings {
			(*change)(&reading)
			readings[ref] = reading
		}
	}
	return readings, err
}

// newFalsifyingWorld returns a world with one guarded autoscaler "web" with 10 replicas and a queue
// of 10. falsify sets the function that changes readings; nil restores correct readings.
func newFalsifyingWorld(t *testing.T, edit ...func(*config.Autoscaler)) (w *daemontest.World, falsify func(func(*targets.Reading))) {
	w = daemontest.New(t)
	change := &atomic.Pointer[func(*targets.Reading)]{}
	w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return falsifying{Memory: memory, change: change} }
	w.Add("web", 10, append([]func(*config.Autoscaler){func(a *config.Autoscaler) {
		a.Guard = config.Guard{Drop: 50, Confirm: 3}
	}}, edit...)...)
	w.Source().Value("web", 10)
	return w, func(f func(*targets.Reading)) {
		if f == nil {
			change.Store(nil)
			return
		}
		change.Store(&f)
	}
}

// vanish removes most of a target's instances from its reading.
func vanish(reading *targets.Reading) {
	reading.SpecReplicas, reading.StatusReplicas, reading.Instances = 3, 3, reading.Instances[:3]
}

const aRound = 15 * time.Second

// TestGuardFalseReadings checks for each kind of count that a suspect reading has no effect until
// enough readings agree.
func TestGuardFalseReadings(t *testing.T) {
	for name, change := range map[string]func(*targets.Reading){
		"all counts": vanish,
		"wanted":     func(r *targets.Reading) { r.SpecReplicas = 4 },
		"observed":   func(r *targets.Reading) { r.StatusReplicas = 4 },
		"instances":  func(r *targets.Reading) { r.Instances = r.Instances[:4] },
		"nothing":    func(r *targets.Reading) { r.SpecReplicas, r.StatusReplicas, r.Instances = 0, 0, nil },
	} {
		for _, rounds := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, falsify := newFalsifyingWorld(t, func(a *config.Autoscaler) { a.OnForeignChange = config.RestoreForeignChange })
					start := time.Now()
					w.Start()
					defer w.Stop()
					w.Advance(time.Minute)
					falsify(change)
					w.Source().Value("web", 4)
					for range rounds {
						w.Advance(aRound)
						if got := w.Condition("web", policy.AbleToScale); got != "False/ImplausibleReading" {
							t.Errorf("AbleToScale = %s", got)
						}
					}
					falsify(nil)
					w.Source().Value("web", 10)
					w.Advance(10 * time.Minute)
					if got := w.Writes("web", start); len(got) != 0 {
						t.Errorf("writes = %v, want none", got)
					}
					if got := w.Condition("web", policy.AbleToScale); !strings.HasPrefix(got, "True/") {
						t.Errorf("AbleToScale = %s", got)
					}
					if got := w.Reasons("web"); slices.ContainsFunc(got, func(reason string) bool { return strings.HasPrefix(reason, daemontest.ForeignEvent) }) {
						t.Errorf("events = %v", got)
					}
				})
			})
		}
	}
}

// TestGuardAccepts checks that a real loss of instances is accepted after enough readings, and is
// treated as a change by an external writer.
func TestGuardAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newFalsifyingWorld(t)
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		start := time.Now()
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = 3 })
		w.Advance(3 * aRound)
		if got := w.Writes("web", start); len(got) != 0 {
			t.Errorf("writes while the readings are suspect = %v", got)
		}
		if message := w.View("web").Decision.Hold.Message; message != "the number of wanted replicas fell from 10 to 3 between two rounds without a write by hpad; not accepted yet (3 of 4 consecutive readings)" {
			t.Errorf("message of the hold = %q", message)
		}
		w.Advance(aRound)
		if got := w.Writes("web", start); !slices.Equal(got, []string{"1m0s: 3>6"}) && !slices.Equal(got, []string{"1m0s: 3>7"}) {
			t.Errorf("writes after the reading was accepted = %v", got)
		}
		if got := w.Reasons("web"); !slices.Contains(got, daemontest.ForeignEvent+" x1") {
			t.Errorf("events = %v", got)
		}
	})
}

// TestGuardAcceptsOwnWrites checks that the guard accepts hpad's own writes, small decreases and
// all increases.
func TestGuardAcceptsOwnWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newFalsifyingWorld(t)
		w.Start()
		defer w.Stop()
		w.Advance(time.Minute)
		w.Source().Value("web", 1)
		start := time.Now()
		w.Advance(6 * time.Minute)
		if got := w.Writes("web", start); len(got) != 1 || !strings.HasSuffix(got[0], "10>1") {
			t.Fatalf("writes = %v", got)
		}
		w.Source().Value("web", 40)
		w.Advance(5 * time.Minute)
		if got := w.Fleet().Replicas("web"); got != 40 {
			t.Fatalf("%d replicas, want 40", got)
		}
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Replicas = 20 })
		w.Advance(aRound)
		if got := w.Reasons("web"); !slices.Contains(got, daemontest.ForeignEvent+" x1") {
			t.Errorf("events = %v, want a decrease by half accepted immediately", got)
		}
		for _, view := range w.Daemon.Autoscalers() {
			for _, event := range view.Events {
				if event.Reason == "ImplausibleReading" {
					t.Errorf("unexpected suspect reading: %s", event.Message)
				}
			}
		}
	})
}

// TestGuardAcrossRestarts checks that the last accepted counts and the number of suspect readings
// survive a restart.
func TestGuardAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, falsify := newFalsifyingWorld(t)
		start := time.Now()
		w.Start()
		w.Advance(time.Minute)
		w.Stop()
		falsify(vanish)
		w.Source().Value("web", 3)
		w.Start()
		w.Advance(2 * aRound)
		w.Stop()
		w.Start()
		defer w.Stop()
		w.Advance(aRound)
		if got := w.Condition("web", policy.AbleToScale); got != "False/ImplausibleReading" {
			t.Errorf("AbleToScale = %s", got)
		}
		falsify(nil)
		w.Source().Value("web", 10)
		w.Advance(10 * time.Minute)
		if got := w.Writes("web", start); len(got) != 0 {
			t.Errorf("writes = %v", got)
		}
	})
}

// TestGuardOff checks that every reading is accepted without a guard and with compat = "strict".
func TestGuardOff(t *testing.T) {
	for name, off := range map[string]func(*daemontest.World, *config.Autoscaler){
		"no guard": func(_ *daemontest.World, a *config.Autoscaler) { a.Guard = config.Guard{} },
		"strict":   func(w *daemontest.World, _ *config.Autoscaler) { w.Config.Daemon.Compat = config.CompatStrict },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, falsify := newFalsifyingWorld(t)
				off(w, w.Config.Autoscalers["web"])
				w.Start()
				defer w.Stop()
				w.Advance(time.Minute)
				falsify(vanish)
				w.Advance(aRound)
				if got := w.Condition("web", policy.AbleToScale); !strings.HasPrefix(got, "True/") {
					t.Errorf("AbleToScale = %s", got)
				}
			})
		})
	}
}
