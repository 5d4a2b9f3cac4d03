package round_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// guarded adds a breaker at 30% and ten autoscalers with ten instances each, without stabilization.
// It returns the names of the autoscalers.
func guarded(w *daemontest.World) []string {
	w.Config.Daemon.DownscaleStabilization = 0
	w.Breaker = &config.Breaker{MaxRemoved: 30, Window: 10 * time.Minute}
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("web-%d", i))
		w.AddWithValue(names[i], 10, 10)
	}
	return names
}

func values(w *daemontest.World, value float64, names ...string) {
	for _, name := range names {
		w.Source().Value(name, value)
	}
}

func wantCounts(w *daemontest.World, want int32, names ...string) {
	w.T.Helper()
	for _, name := range names {
		w.WantCount(name, want)
	}
}

// wantBreaker checks the state of the breaker.
func wantBreaker(w *daemontest.World, open bool, removed int64) {
	w.T.Helper()
	if got := w.Daemon.Breakers()["fleet"]; got.Open != open || got.Removed != removed {
		w.T.Errorf("open = %t with %d removed, want %t with %d", got.Open, got.Removed, open, removed)
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
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				names := guarded(w)
				w.Start()
				if c.open { // 31 of 100 instances
					values(w, 7, names[:8]...)
					values(w, 3, names[8])
					values(w, 12, names[9])
				} else {
					values(w, 7, names...)
				}
				w.Advance(15 * time.Second)
				if !c.open {
					wantCounts(w, 7, names...)
					wantBreaker(w, false, 30)
					w.Stop()
					return
				}
				wantCounts(w, 10, names[:9]...)
				w.WantCount(names[9], 12)
				wantBreaker(w, true, 0)
				view := w.View(names[0])
				const why = "its autoscalers would remove 31 of 100 instances (31%) within 10m0s, but only 30% is allowed"
				if d := view.Decision; d.HeldBy != policy.HeldByBreaker || d.DesiredReplicas != 7 || d.Write || !strings.Contains(d.Message, why) || view.Evaluation.Reason != "BreakerOpen" {
					t.Errorf("HeldBy = %q, DesiredReplicas = %d, Write = %t, reason = %q: %s", d.HeldBy, d.DesiredReplicas, d.Write, view.Evaluation.Reason, d.Message)
				}
				w.Advance(15 * time.Second)
				if got := w.Condition(names[9], policy.Paused); got != "True/BreakerOpen" || !daemontest.Contains(w.Reasons(names[9]), "BreakerOpen x1") {
					t.Errorf("Paused = %s, events = %v", got, w.Reasons(names[9]))
				}
				w.Stop()
			})
		})
	}
}

// TestBreakerBase checks that the share refers to the current number of instances, even if the last
// reading of an autoscaler is old.
func TestBreakerBase(t *testing.T) {
	t.Run("instances removed since the last reading", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.Start()
			values(w, 7, names...)
			w.Advance(15*time.Second + time.Millisecond)
			wantBreaker(w, false, 30)
			values(w, 6, names[0])
			w.Daemon.Evaluate(names[0])
			w.Advance(time.Second)
			wantCounts(w, 7, names...)
			wantBreaker(w, true, 30)
			w.Stop()
		})
	})
	t.Run("removals in progress", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.Start()
			values(w, 7, names[1:]...)
			w.Store.SlowDown(5 * time.Second) // the intentions are being committed
			w.Advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
			wantBreaker(w, false, 27)
			values(w, 6, names[0]) // 31 of 100 instances
			w.Daemon.Evaluate(names[0])
			w.Advance(13 * time.Second)
			w.WantCount(names[0], 10)
			wantBreaker(w, true, 0) // prevents all scale-downs, including uncommitted ones
			w.Stop()
		})
	})
	t.Run("suspect readings", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			change := &atomic.Pointer[func(*targets.Reading)]{}
			w.FleetKind = func(memory *targettest.Memory) targets.Fleet { return falsifying{Memory: memory, change: change} }
			for i, name := range names {
				if a := w.Config.Autoscalers[name]; i < 5 {
					a.Guard = config.Guard{Drop: 50, Confirm: 3}
					continue
				}
				w.Fleet().Change(name, func(target *targettest.MemoryTarget) { target.Replicas = 12 })
				w.Source().Value(name, 12)
			}
			w.Start()
			falsify := func(reading *targets.Reading) {
				if reading.SpecReplicas == 10 {
					vanish(reading)
				}
			}
			change.Store(&falsify)
			values(w, 6, names[5:]...) // 30 of 110 instances, 75 of which are known
			w.Advance(15 * time.Second)
			wantCounts(w, 6, names[5:]...)
			wantBreaker(w, false, 30)
			w.Stop()
		})
	})
}

// TestBreakerWindow checks that the breaker adds the removals of several rounds, and that
// scale-downs that it prevented are evaluated again after the window. Both must survive a restart
// or kill.
func TestBreakerWindow(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		names := guarded(w)
		w.Start()
		values(w, 8, names...)
		w.Advance(15 * time.Second)
		wantCounts(w, 8, names...)
		again := func() {
			t.Helper()
			w.Stop()
			w.Start()
			w.Store = w.Store.Copied() // the state after a kill
			w.Stop()
			w.Start()
		}
		again()
		wantBreaker(w, false, 20)
		values(w, 6, names...) // 20 more, which makes 40 of 100 instances
		w.Advance(15 * time.Second)
		wantCounts(w, 8, names...)
		wantBreaker(w, true, 20)
		again()
		w.Advance(time.Minute)
		wantCounts(w, 8, names...)
		w.Advance(9 * time.Minute) // after the window: 20 of 80 instances
		wantCounts(w, 6, names...)
		wantBreaker(w, false, 20)
		w.Stop()
	})
}

// TestBreakerResumed checks that resuming from a breaker's pause allows all scale-downs within the
// window, and that resuming from a user's pause does not.
func TestBreakerResumed(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		names := guarded(w)
		w.Start()
		values(w, 5, names...)
		w.Advance(15 * time.Second)
		wantCounts(w, 10, names...)
		w.Pause(policy.Scope{Fleet: "fleet"}, policy.Up, 0)
		if pauses := w.Daemon.Pauses(); len(pauses) != 2 || pauses[0].Breaker || !pauses[1].Breaker {
			t.Errorf("active pauses = %v", pauses)
		}
		fleet := policy.Scope{Fleet: "fleet"}
		if ended, err := w.Daemon.Resume(t.Context(), fleet, "bob"); err != nil || ended.Breaker || !strings.Contains(ended.Message, "still active") {
			t.Errorf("Resume = %v, %v, want the pause of the user and a message about the breaker", ended, err)
		}
		w.Advance(15 * time.Second)
		wantCounts(w, 10, names...)
		if ended, err := w.Daemon.Resume(t.Context(), fleet, "bob"); err != nil || !ended.Breaker || !strings.Contains(ended.Message, "it will not open before ") {
			t.Errorf("Resume = %v, %v, want the breaker's pause and the time until which the breaker is disabled", ended, err)
		}
		w.Advance(15 * time.Second)
		wantCounts(w, 5, names...)
		values(w, 3, names...)
		w.Advance(9 * time.Minute)
		wantCounts(w, 3, names...)
		w.Advance(time.Minute)
		values(w, 1, names...)
		w.Advance(15 * time.Second)
		wantCounts(w, 3, names...)
		if _, err := w.Daemon.Resume(t.Context(), policy.Scope{Autoscaler: names[0]}, "bob"); err == nil || !strings.Contains(err.Error(), "breaker") {
			t.Errorf("Resume of a single autoscaler = %v, want an error", err)
		}
		if _, err := w.Daemon.Pause(t.Context(), policy.Pause{Scope: policy.Scope{Fleet: "fleet", Breaker: true}}, 0); err == nil {
			t.Error("a user can open the breaker")
		}
		w.Stop()
	})
}

// TestBreakerPasses checks changes that the breaker neither prevents nor adds to its sum.
func TestBreakerPasses(t *testing.T) {
	t.Run("a user's count", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.Start()
			values(w, 2, names...)
			w.Advance(15 * time.Second)
			wantBreaker(w, true, 0)
			if err := w.ScaleTo(names[0], 2, false); err != nil {
				t.Fatal(err)
			}
			w.WantCount(names[0], 2)
			wantBreaker(w, true, 0)
			w.Stop()
		})
	})
	t.Run("failed writes", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.Start()
			remove := w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: targets.ErrForbidden})
			values(w, 8, names...)
			w.Advance(time.Minute)
			wantBreaker(w, false, 0)
			remove()
			w.Advance(15 * time.Second)
			wantCounts(w, 8, names...)
			wantBreaker(w, false, 20)
			w.Stop()
		})
	})
	t.Run("a pause just before the write", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.Start()
			values(w, 8, names...)
			w.Store.SlowDown(5 * time.Second) // the intentions are being committed
			w.Advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
			wantBreaker(w, false, 20)
			go func() { _, _ = w.Daemon.Pause(t.Context(), policy.Pause{}, 0) }()
			w.Advance(time.Minute)
			wantCounts(w, 10, names...)
			wantBreaker(w, false, 0)
			w.Stop()
		})
	})
	t.Run("a dry run", func(t *testing.T) {
		daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
			names := guarded(w)
			w.DryRun = true
			w.Start()
			values(w, 2, names...)
			w.Advance(time.Minute)
			wantBreaker(w, false, 0)
			w.Stop()
		})
	})
}

// TestBreakerWaits checks that scale-downs wait for slow passes of their round, up to the read
// timeout, but not for a pass that panics.
func TestBreakerWaits(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		names := guarded(w)
		w.Start()
		values(w, 8, names[:9]...)
		w.Source().Hang(names[9])
		begun := time.Now()
		w.Advance(15*time.Second + time.Millisecond)
		wantCounts(w, 10, names...)
		w.Advance(14 * time.Second)
		wantCounts(w, 8, names[:9]...)
		if late := w.View(names[0]).Evaluation.Late; late > 0 {
			t.Errorf("%d late passes, want 0", late)
		}
		if writes := w.Writes(names[0], begun); len(writes) != 1 {
			t.Errorf("writes = %v", writes)
		}
		w.Source().Hang(names[9]) // the autoscaler is removed before the query ends
		values(w, 6, names[2:4]...)
		w.Advance(time.Until(ticks.Next(time.Now(), 15*time.Second).Add(time.Second)))
		wantCounts(w, 8, names[2:4]...)
		delete(w.Config.Autoscalers, names[9])
		w.Reload()
		w.Advance(14 * time.Second)
		wantCounts(w, 6, names[2:4]...)
		w.AddWithValue(names[9], 10, 10)
		w.Reload()
		w.Source().Set(names[9], func(context.Context, time.Time) (sources.Vector, error) { panic("slow") })
		values(w, 6, names[:2]...)
		w.Advance(20 * time.Second)
		wantCounts(w, 6, names[:2]...)
		w.Stop()
	})
}
