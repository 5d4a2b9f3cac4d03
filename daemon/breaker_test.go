package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// guarded adds a breaker at 30% and ten autoscalers with ten instances each, without stabilization.
// It returns the names of the autoscalers.
func (w *world) guarded() []string {
	w.config.Daemon.DownscaleStabilization = 0
	w.breaker = &config.Breaker{MaxRemoved: 30, Window: 10 * time.Minute}
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("web-%d", i))
		w.fed(names[i], 10, 10)
	}
	return names
}

func (w *world) values(value float64, names ...string) {
	for _, name := range names {
		w.source().value(name, value)
	}
}

func (w *world) wantCounts(want int32, names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.wantCount(name, want)
	}
}

// wantBreaker checks the state of the breaker.
func (w *world) wantBreaker(open bool, removed int64) {
	w.t.Helper()
	if got := w.daemon.Breakers()["fleet"]; got.Open != open || got.Removed != removed {
		w.t.Errorf("open = %t with %d removed, want %t with %d", got.Open, got.Removed, open, removed)
	}
}

// TestBreakerRound checks that one round makes either all of its scale-downs, if the breaker allows
// their sum, or none. Scale-ups are not affected.
func TestBreakerRound(t *testing.T) {
	for _, c := range []struct {
		name string
		last float64
		open bool
	}{{"at the limit", 7, false}, {"one instance above the limit", 6, true}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				names := w.guarded()
				w.start()
				if c.open { // 31 of 100 instances
					w.values(7, names[:8]...)
					w.values(3, names[8])
					w.values(12, names[9])
				} else {
					w.values(7, names...)
				}
				w.advance(15 * time.Second)
				if !c.open {
					w.wantCounts(7, names...)
					w.wantBreaker(false, 30)
					w.stop()
					return
				}
				w.wantCounts(10, names[:9]...)
				w.wantCount(names[9], 12)
				w.wantBreaker(true, 0)
				view := w.view(names[0])
				const why = "its autoscalers would remove 31 of 100 instances (31%) within 10m0s, but only 30% is allowed"
				if d := view.Decision; d.HeldBy != policy.HeldByBreaker || d.DesiredReplicas != 7 || d.Write || !strings.Contains(d.Message, why) || view.Evaluation.Reason != "BreakerOpen" {
					t.Errorf("HeldBy = %q, DesiredReplicas = %d, Write = %t, reason = %q: %s", d.HeldBy, d.DesiredReplicas, d.Write, view.Evaluation.Reason, d.Message)
				}
				w.advance(15 * time.Second)
				if got := w.condition(names[9], policy.Paused); got != "True/BreakerOpen" || !contains(w.reasons(names[9]), "BreakerOpen x1") {
					t.Errorf("Paused = %s, events = %v", got, w.reasons(names[9]))
				}
				w.stop()
			})
		})
	}
}

// TestBreakerBase checks that the share refers to the current number of instances, even if the last
// reading of an autoscaler is old.
func TestBreakerBase(t *testing.T) {
	t.Run("instances removed since the last reading", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.start()
			w.values(7, names...)
			w.advance(15*time.Second + time.Millisecond)
			w.wantBreaker(false, 30)
			w.values(6, names[0])
			w.daemon.Evaluate(names[0])
			w.advance(time.Second)
			w.wantCounts(7, names...)
			w.wantBreaker(true, 30)
			w.stop()
		})
	})
	t.Run("removals in progress", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.start()
			w.values(7, names[1:]...)
			w.store.slowDown(5 * time.Second) // the intentions are being committed
			w.advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
			w.wantBreaker(false, 27)
			w.values(6, names[0]) // 31 of 100 instances
			w.daemon.Evaluate(names[0])
			w.advance(13 * time.Second)
			w.wantCount(names[0], 10)
			w.wantBreaker(true, 0) // prevents all scale-downs, including uncommitted ones
			w.stop()
		})
	})
	t.Run("suspect readings", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			change := &atomic.Pointer[func(*targets.Reading)]{}
			w.fleetKind = func(memory *targettest.Memory) targets.Fleet { return falsifying{Memory: memory, change: change} }
			for i, name := range names {
				if a := w.config.Autoscalers[name]; i < 5 {
					a.Guard = config.Guard{Drop: 50, Confirm: 3}
					continue
				}
				w.fleet().Change(name, func(target *targettest.MemoryTarget) { target.Replicas = 12 })
				w.source().value(name, 12)
			}
			w.start()
			falsify := func(reading *targets.Reading) {
				if reading.SpecReplicas == 10 {
					vanish(reading)
				}
			}
			change.Store(&falsify)
			w.values(6, names[5:]...) // 30 of 110 instances, 75 of which are known
			w.advance(15 * time.Second)
			w.wantCounts(6, names[5:]...)
			w.wantBreaker(false, 30)
			w.stop()
		})
	})
}

// TestBreakerWindow checks that the breaker adds the removals of several rounds, and that
// scale-downs that it prevented are evaluated again after the window. Both must survive a restart
// or kill.
func TestBreakerWindow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		names := w.guarded()
		w.start()
		w.values(8, names...)
		w.advance(15 * time.Second)
		w.wantCounts(8, names...)
		again := func() {
			t.Helper()
			w.stop()
			w.start()
			w.store = w.store.copied() // the state after a kill
			w.stop()
			w.start()
		}
		again()
		w.wantBreaker(false, 20)
		w.values(6, names...) // 20 more, which makes 40 of 100 instances
		w.advance(15 * time.Second)
		w.wantCounts(8, names...)
		w.wantBreaker(true, 20)
		again()
		w.advance(time.Minute)
		w.wantCounts(8, names...)
		w.advance(9 * time.Minute) // after the window: 20 of 80 instances
		w.wantCounts(6, names...)
		w.wantBreaker(false, 20)
		w.stop()
	})
}

// TestBreakerResumed checks that resuming from a breaker's pause allows all scale-downs within the
// window, and that resuming from a user's pause does not.
func TestBreakerResumed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		names := w.guarded()
		w.start()
		w.values(5, names...)
		w.advance(15 * time.Second)
		w.wantCounts(10, names...)
		w.pause(policy.Scope{Fleet: "fleet"}, policy.Up, 0)
		if pauses := w.daemon.Pauses(); len(pauses) != 2 || pauses[0].Breaker || !pauses[1].Breaker {
			t.Errorf("active pauses = %v", pauses)
		}
		fleet := policy.Scope{Fleet: "fleet"}
		if ended, err := w.daemon.Resume(t.Context(), fleet, "bob"); err != nil || ended.Breaker || !strings.Contains(ended.Message, "still active") {
			t.Errorf("Resume = %v, %v, want the pause of the user and a message about the breaker", ended, err)
		}
		w.advance(15 * time.Second)
		w.wantCounts(10, names...)
		if ended, err := w.daemon.Resume(t.Context(), fleet, "bob"); err != nil || !ended.Breaker || !strings.Contains(ended.Message, "it will not open before ") {
			t.Errorf("Resume = %v, %v, want the breaker's pause and the time until which the breaker is disabled", ended, err)
		}
		w.advance(15 * time.Second)
		w.wantCounts(5, names...)
		w.values(3, names...)
		w.advance(9 * time.Minute)
		w.wantCounts(3, names...)
		w.advance(time.Minute)
		w.values(1, names...)
		w.advance(15 * time.Second)
		w.wantCounts(3, names...)
		if _, err := w.daemon.Resume(t.Context(), policy.Scope{Autoscaler: names[0]}, "bob"); err == nil || !strings.Contains(err.Error(), "breaker") {
			t.Errorf("Resume of a single autoscaler = %v, want an error", err)
		}
		if _, err := w.daemon.Pause(t.Context(), policy.Pause{Scope: policy.Scope{Fleet: "fleet", Breaker: true}}, 0); err == nil {
			t.Error("a user can open the breaker")
		}
		w.stop()
	})
}

// TestBreakerPasses checks changes that the breaker neither prevents nor adds to its sum.
func TestBreakerPasses(t *testing.T) {
	t.Run("a user's count", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.start()
			w.values(2, names...)
			w.advance(15 * time.Second)
			w.wantBreaker(true, 0)
			if err := w.scaleTo(names[0], 2, false); err != nil {
				t.Fatal(err)
			}
			w.wantCount(names[0], 2)
			w.wantBreaker(true, 0)
			w.stop()
		})
	})
	t.Run("failed writes", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.start()
			remove := w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: targets.ErrForbidden})
			w.values(8, names...)
			w.advance(time.Minute)
			w.wantBreaker(false, 0)
			remove()
			w.advance(15 * time.Second)
			w.wantCounts(8, names...)
			w.wantBreaker(false, 20)
			w.stop()
		})
	})
	t.Run("a pause just before the write", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.start()
			w.values(8, names...)
			w.store.slowDown(5 * time.Second) // the intentions are being committed
			w.advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
			w.wantBreaker(false, 20)
			go func() { _, _ = w.daemon.Pause(t.Context(), policy.Pause{}, 0) }()
			w.advance(time.Minute)
			w.wantCounts(10, names...)
			w.wantBreaker(false, 0)
			w.stop()
		})
	})
	t.Run("a dry run", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			names := w.guarded()
			w.dryRun = true
			w.start()
			w.values(2, names...)
			w.advance(time.Minute)
			w.wantBreaker(false, 0)
			w.stop()
		})
	})
}

// TestBreakerWaits checks that scale-downs wait for slow passes of their round, up to the read
// timeout, but not for a pass that panics.
func TestBreakerWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		names := w.guarded()
		w.start()
		w.values(8, names[:9]...)
		w.source().hangs(names[9])
		begun := time.Now()
		w.advance(15*time.Second + time.Millisecond)
		w.wantCounts(10, names...)
		w.advance(14 * time.Second)
		w.wantCounts(8, names[:9]...)
		if late := w.view(names[0]).Evaluation.Late; late > 0 {
			t.Errorf("%d late passes, want 0", late)
		}
		if writes := w.writes(names[0], begun); len(writes) != 1 {
			t.Errorf("writes = %v", writes)
		}
		w.source().hangs(names[9]) // the autoscaler is removed before the query ends
		w.values(6, names[2:4]...)
		w.advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
		w.wantCounts(8, names[2:4]...)
		delete(w.config.Autoscalers, names[9])
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.advance(14 * time.Second)
		w.wantCounts(6, names[2:4]...)
		w.fed(names[9], 10, 10)
		if _, err := w.daemon.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.source().set(names[9], func(context.Context, time.Time) (sources.Vector, error) { panic("slow") })
		w.values(6, names[:2]...)
		w.advance(20 * time.Second)
		w.wantCounts(6, names[:2]...)
		w.stop()
	})
}
