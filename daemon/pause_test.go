package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func (w *world) pause(scope policy.Scope, direction policy.Direction, lasts time.Duration) {
	w.t.Helper()
	inForce, err := w.daemon.Pause(w.t.Context(), policy.Pause{Scope: scope, Direction: direction, Author: "alice", Reason: "deploy"}, lasts)
	if err != nil {
		w.t.Fatalf("pause %s: %v", scope, err)
	}
	if all := w.daemon.Pauses(); !slices.Contains(all, inForce) {
		w.t.Errorf("reported active pause = %+v, but the pauses are %+v", inForce, all)
	}
	w.advance(time.Millisecond)
}

func (w *world) resume(scope policy.Scope) {
	w.t.Helper()
	if _, err := w.daemon.Resume(w.t.Context(), scope, "bob"); err != nil {
		w.t.Fatalf("resume %s: %v", scope, err)
	}
	w.advance(time.Millisecond)
}

func (w *world) wantCount(name string, want int32) {
	w.t.Helper()
	if got := w.fleet().Replicas(name); got != want {
		w.t.Errorf("replicas of %s = %d, want %d", name, got, want)
	}
}

// TestPauseHolds checks that a paused autoscaler records its decisions, and scales after the pause.
func TestPauseHolds(t *testing.T) {
	for _, c := range []struct {
		name      string
		direction policy.Direction
		// value is the count that the metric requests. The current count is 5.
		value  float64
		want   int32
		reason string
	}{
		{name: "both, up", direction: policy.BothDirections, value: 8, want: 5, reason: "Paused"},
		{name: "both directions by default", value: 8, want: 5, reason: "Paused"},
		{name: "up", direction: policy.Up, value: 8, want: 5, reason: "PausedUp"},
		{name: "down, up", direction: policy.Down, value: 8, want: 8, reason: "PausedDown"},
		{name: "down", direction: policy.Down, value: 2, want: 5, reason: "PausedDown"},
		{name: "up, down", direction: policy.Up, value: 2, want: 2, reason: "PausedUp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.config.Daemon.DownscaleStabilization = 0
				w.fed("web", 5, 5)
				w.start()
				w.pause(policy.Scope{Autoscaler: "web"}, c.direction, 0)
				w.source().value("web", c.value)
				w.advance(time.Minute)
				w.wantCount("web", c.want)
				if got := w.condition("web", policy.Paused); got != "True/"+c.reason {
					t.Errorf("Paused = %s, want True/%s", got, c.reason)
				}
				view := w.view("web")
				if len(view.Pauses) != 1 || !strings.HasSuffix(view.Pauses[0].Message, "by alice: deploy") {
					t.Errorf("shown pauses = %+v", view.Pauses)
				}
				if c.want == 5 {
					d := view.Decision
					if d.HeldBy != policy.HeldByPause || d.DesiredReplicas != int32(c.value) || d.Write || !strings.Contains(d.Message, view.Pauses[0].Message) {
						t.Errorf("HeldBy = %q, desired = %d, write = %t: %s", d.HeldBy, d.DesiredReplicas, d.Write, d.Message)
					}
				}
				if problems := w.daemon.Health().Unevaluated; len(problems) > 0 {
					t.Errorf("a paused autoscaler is reported as not evaluated: %+v", problems)
				}
				w.resume(policy.Scope{Autoscaler: "web"})
				w.wantCount("web", int32(c.value))
				if got := w.condition("web", policy.Paused); got != "False/Resumed" {
					t.Errorf("Paused after the resume = %s", got)
				}
				if !contains(w.reasons("web"), c.reason+" x1") || !contains(w.reasons("web"), "Resumed x1") {
					t.Errorf("events = %v", w.reasons("web"))
				}
				w.stop()
			})
		})
	}
}

// TestPausePersists checks that a pause survives a restart, a kill, a reload, a changed file, and
// added or removed autoscalers.
func TestPausePersists(t *testing.T) {
	for _, scope := range []policy.Scope{{Autoscaler: "web"}, {Fleet: "fleet"}, {}} {
		t.Run(scope.String(), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 5, 8)
				w.fed("other", 5, 5)
				w.start()
				w.wantCount("web", 8)
				w.pause(scope, policy.BothDirections, 0)
				w.source().value("web", 12)
				w.advance(time.Minute)
				w.wantCount("web", 8)
				reload := func(what string) {
					t.Helper()
					if _, err := w.daemon.Reload(t.Context()); err != nil {
						t.Fatal(err)
					}
					w.advance(time.Minute)
					if got := w.fleet().Replicas("web"); got != 8 {
						t.Errorf("replicas after %s = %d", what, got)
					}
				}
				reload("a reload")
				edited := w.config.Autoscalers["web"]
				edited.Spec.MaxReplicas = 50
				w.config.Autoscalers["web"] = edited
				reload("a changed file")
				delete(w.config.Autoscalers, "web")
				reload("a file without the autoscaler")
				w.config.Autoscalers["web"] = edited
				reload("a file with the autoscaler again")
				w.stop()
				w.start()
				w.advance(time.Minute)
				w.wantCount("web", 8)
				w.store = w.store.copied() // the state after a kill
				w.stop()
				w.start()
				w.advance(time.Minute)
				w.wantCount("web", 8)
				if scope.Autoscaler == "" { // a pause of all autoscalers also applies to added autoscalers
					w.fed("later", 5, 9)
					reload("another autoscaler")
					w.wantCount("later", 5)
				}
				if pauses := w.daemon.Pauses(); len(pauses) != 1 || pauses[0].Scope != scope || pauses[0].Author != "alice" {
					t.Errorf("pauses = %+v", pauses)
				}
				w.resume(scope)
				w.advance(time.Minute)
				w.wantCount("web", 12)
				w.stop()
			})
		})
	}
}

// TestPauseEnds checks that a pause of an hour ends automatically, regardless of clock steps and
// downtime.
func TestPauseEnds(t *testing.T) {
	for _, step := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(step.String(), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					w.fed("web", 5, 8)
					w.start()
					begun := time.Now()
					w.pause(policy.Scope{}, policy.BothDirections, time.Hour)
					w.source().value("web", 12)
					w.advance(10 * time.Minute)
					if restart {
						w.stop()
					}
					w.stepClock(step)
					w.advance(10 * time.Minute)
					if restart {
						w.start()
					}
					until := begun.Add(step + time.Hour)
					if pauses := w.daemon.Pauses(); len(pauses) != 1 || pauses[0].Until.Sub(until).Abs() > time.Second {
						t.Errorf("pauses = %+v, want one until %s", pauses, until)
					}
					w.advance(time.Until(begun.Add(time.Hour - time.Second)))
					w.wantCount("web", 8)
					w.advance(30 * time.Second)
					w.wantCount("web", 12)
					if pauses := w.daemon.Pauses(); len(pauses) > 0 {
						t.Errorf("pauses after the end = %+v", pauses)
					}
					if snapshot, err := w.store.Load(t.Context()); err != nil || len(snapshot.Pauses) > 0 {
						t.Errorf("pauses in the state = %+v (%v), want none", snapshot.Pauses, err)
					}
					w.stop()
				})
			})
		}
	}
}

// TestPauseErrors checks pauses that are rejected.
func TestPauseErrors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 5, 5)
		w.start()
		for _, c := range []struct {
			pause policy.Pause
			lasts time.Duration
			want  error
		}{
			{pause: policy.Pause{Scope: policy.Scope{Autoscaler: "wbe"}}, want: api.ErrUnknown},
			{pause: policy.Pause{Scope: policy.Scope{Fleet: "prod"}}, want: api.ErrUnknown},
			{pause: policy.Pause{Scope: policy.Scope{Fleet: "fleet", Autoscaler: "web"}}, want: api.ErrRefused},
			{pause: policy.Pause{Direction: "sideways"}, want: api.ErrRefused},
			{pause: policy.Pause{Reason: strings.Repeat("x", 501)}, want: api.ErrRefused},
			{pause: policy.Pause{Reason: "two\nlines"}, want: api.ErrRefused},
			{lasts: -time.Second, want: api.ErrRefused},
		} {
			if _, err := w.daemon.Pause(t.Context(), c.pause, c.lasts); !errors.Is(err, c.want) {
				t.Errorf("error for %+v = %v, want %v", c.pause, err, c.want)
			}
		}
		if pauses := w.daemon.Pauses(); len(pauses) > 0 {
			t.Errorf("pauses = %+v, want none", pauses)
		}
		web := policy.Scope{Autoscaler: "web"}
		if _, err := w.daemon.Resume(t.Context(), web, ""); !errors.Is(err, api.ErrNotPaused) {
			t.Errorf("Resume without a pause = %v", err)
		}
		if _, err := w.daemon.Resume(t.Context(), policy.Scope{Autoscaler: "wbe"}, ""); !errors.Is(err, api.ErrUnknown) {
			t.Errorf("Resume of an unknown autoscaler = %v", err)
		}
		w.pause(policy.Scope{}, policy.Up, 0)
		w.pause(web, policy.Up, 0)
		w.pause(policy.Scope{Fleet: "fleet"}, policy.Down, 0)
		if ended, err := w.daemon.Resume(t.Context(), web, ""); err != nil || !strings.Contains(ended.Message, `fleet "fleet"`) || !strings.Contains(ended.Message, "all autoscalers") {
			t.Errorf("Resume with pauses of wider scopes = %q, %v", ended.Message, err)
		}
		if _, err := w.daemon.Resume(t.Context(), policy.Scope{}, ""); err != nil {
			t.Error(err)
		}
		if _, err := w.daemon.Resume(t.Context(), web, ""); !errors.Is(err, api.ErrNotPaused) || !strings.Contains(err.Error(), `fleet "fleet"`) {
			t.Errorf("Resume with a pause of the fleet = %v", err)
		}
		w.store.fail(errors.New("disk full"))
		_, err := w.daemon.Pause(t.Context(), policy.Pause{Scope: web}, 0)
		if !errors.Is(err, api.ErrUnstored) || !strings.Contains(err.Error(), "disk full") || len(w.daemon.Pauses()) != 2 {
			t.Errorf("Pause with a failing store = %v, pauses = %+v", err, w.daemon.Pauses())
		}
		w.store.fail(nil)
		w.advance(time.Minute)
		if snapshot, err := w.store.Load(t.Context()); err != nil || len(snapshot.Pauses) != 2 {
			t.Errorf("pauses in the state after the store recovered = %+v (%v)", snapshot.Pauses, err)
		}
		w.stop()
	})
}
