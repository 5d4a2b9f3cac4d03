package records_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
)

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
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Config.Daemon.DownscaleStabilization = 0
				w.AddWithValue("web", 5, 5)
				w.Start()
				w.Pause(policy.Scope{Autoscaler: "web"}, c.direction, 0)
				w.Source().Value("web", c.value)
				w.Advance(time.Minute)
				w.WantCount("web", c.want)
				if got := w.Condition("web", policy.Paused); got != "True/"+c.reason {
					t.Errorf("Paused = %s, want True/%s", got, c.reason)
				}
				view := w.View("web")
				if len(view.Pauses) != 1 || !strings.HasSuffix(view.Pauses[0].Message, "by alice: deploy") {
					t.Errorf("shown pauses = %+v", view.Pauses)
				}
				if c.want == 5 {
					d := view.Decision
					if d.HeldBy != policy.HeldByPause || d.DesiredReplicas != int32(c.value) || d.Write || !strings.Contains(d.Message, view.Pauses[0].Message) {
						t.Errorf("HeldBy = %q, desired = %d, write = %t: %s", d.HeldBy, d.DesiredReplicas, d.Write, d.Message)
					}
				}
				if problems := w.Daemon.Health().Unevaluated; len(problems) > 0 {
					t.Errorf("a paused autoscaler is reported as not evaluated: %+v", problems)
				}
				w.Resume(policy.Scope{Autoscaler: "web"})
				w.WantCount("web", int32(c.value))
				if got := w.Condition("web", policy.Paused); got != "False/Resumed" {
					t.Errorf("Paused after the resume = %s", got)
				}
				if !daemontest.Contains(w.Reasons("web"), c.reason+" x1") || !daemontest.Contains(w.Reasons("web"), "Resumed x1") {
					t.Errorf("events = %v", w.Reasons("web"))
				}
				w.Stop()
			})
		})
	}
}

// TestPausePersists checks that a pause survives a restart, a kill, a reload, a changed file, and
// added or removed autoscalers.
func TestPausePersists(t *testing.T) {
	for _, scope := range []policy.Scope{{Autoscaler: "web"}, {Fleet: "fleet"}, {}} {
		t.Run(scope.String(), func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 5, 8)
				w.AddWithValue("other", 5, 5)
				w.Start()
				w.WantCount("web", 8)
				w.Pause(scope, policy.BothDirections, 0)
				w.Source().Value("web", 12)
				w.Advance(time.Minute)
				w.WantCount("web", 8)
				reload := func(what string) {
					t.Helper()
					w.Reload()
					w.Advance(time.Minute)
					if got := w.Fleet().Replicas("web"); got != 8 {
						t.Errorf("replicas after %s = %d", what, got)
					}
				}
				reload("a reload")
				edited := w.Config.Autoscalers["web"]
				edited.Spec.MaxReplicas = 50
				reload("a changed file")
				delete(w.Config.Autoscalers, "web")
				reload("a file without the autoscaler")
				w.Config.Autoscalers["web"] = edited
				reload("a file with the autoscaler again")
				w.Stop()
				w.Start()
				w.Advance(time.Minute)
				w.WantCount("web", 8)
				w.Store = w.Store.Copied() // the state after a kill
				w.Stop()
				w.Start()
				w.Advance(time.Minute)
				w.WantCount("web", 8)
				if scope.Autoscaler == "" { // a pause of all autoscalers also applies to added autoscalers
					w.AddWithValue("later", 5, 9)
					reload("another autoscaler")
					w.WantCount("later", 5)
				}
				if pauses := w.Daemon.Pauses(); len(pauses) != 1 || pauses[0].Scope != scope || pauses[0].Author != "alice" {
					t.Errorf("pauses = %+v", pauses)
				}
				w.Resume(scope)
				w.Advance(time.Minute)
				w.WantCount("web", 12)
				w.Stop()
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
				daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
					w.AddWithValue("web", 5, 8)
					w.Start()
					begun := time.Now()
					w.Pause(policy.Scope{}, policy.BothDirections, time.Hour)
					w.Source().Value("web", 12)
					w.Advance(10 * time.Minute)
					if restart {
						w.Stop()
					}
					w.StepClock(step)
					w.Advance(10 * time.Minute)
					if restart {
						w.Start()
					}
					until := begun.Add(step + time.Hour)
					if pauses := w.Daemon.Pauses(); len(pauses) != 1 || pauses[0].Until.Sub(until).Abs() > time.Second {
						t.Errorf("pauses = %+v, want one until %s", pauses, until)
					}
					w.Advance(time.Until(begun.Add(time.Hour - time.Second)))
					w.WantCount("web", 8)
					w.Advance(30 * time.Second)
					w.WantCount("web", 12)
					if pauses := w.Daemon.Pauses(); len(pauses) > 0 {
						t.Errorf("pauses after the end = %+v", pauses)
					}
					if snapshot, err := w.Store.Load(t.Context()); err != nil || len(snapshot.Pauses) > 0 {
						t.Errorf("pauses in the state = %+v (%v), want none", snapshot.Pauses, err)
					}
					w.Stop()
				})
			})
		}
	}
}

// TestPauseErrors checks pauses that are rejected.
func TestPauseErrors(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 5, 5)
		w.Start()
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
			if _, err := w.Daemon.Pause(t.Context(), c.pause, c.lasts); !errors.Is(err, c.want) {
				t.Errorf("error for %+v = %v, want %v", c.pause, err, c.want)
			}
		}
		if pauses := w.Daemon.Pauses(); len(pauses) > 0 {
			t.Errorf("pauses = %+v, want none", pauses)
		}
		web := policy.Scope{Autoscaler: "web"}
		if _, err := w.Daemon.Resume(t.Context(), web, ""); !errors.Is(err, api.ErrNotPaused) {
			t.Errorf("Resume without a pause = %v", err)
		}
		if _, err := w.Daemon.Resume(t.Context(), policy.Scope{Autoscaler: "wbe"}, ""); !errors.Is(err, api.ErrUnknown) {
			t.Errorf("Resume of an unknown autoscaler = %v", err)
		}
		w.Pause(policy.Scope{}, policy.Up, 0)
		w.Pause(web, policy.Up, 0)
		w.Pause(policy.Scope{Fleet: "fleet"}, policy.Down, 0)
		if ended, err := w.Daemon.Resume(t.Context(), web, ""); err != nil || !strings.Contains(ended.Message, `fleet "fleet"`) || !strings.Contains(ended.Message, "all autoscalers") {
			t.Errorf("Resume with pauses of wider scopes = %q, %v", ended.Message, err)
		}
		if _, err := w.Daemon.Resume(t.Context(), policy.Scope{}, ""); err != nil {
			t.Error(err)
		}
		if _, err := w.Daemon.Resume(t.Context(), web, ""); !errors.Is(err, api.ErrNotPaused) || !strings.Contains(err.Error(), `fleet "fleet"`) {
			t.Errorf("Resume with a pause of the fleet = %v", err)
		}
		w.Store.Fail(errors.New("disk full"))
		_, err := w.Daemon.Pause(t.Context(), policy.Pause{Scope: web}, 0)
		if !errors.Is(err, api.ErrUnstored) || !strings.Contains(err.Error(), "disk full") || len(w.Daemon.Pauses()) != 2 {
			t.Errorf("Pause with a failing store = %v, pauses = %+v", err, w.Daemon.Pauses())
		}
		w.Store.Fail(nil)
		w.Advance(time.Minute)
		if snapshot, err := w.Store.Load(t.Context()); err != nil || len(snapshot.Pauses) != 2 {
			t.Errorf("pauses in the state after the store recovered = %+v (%v)", snapshot.Pauses, err)
		}
		w.Stop()
	})
}
