package round_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/targettest"
)

// eventsThat returns the number of events with the given reason and message.
func eventsThat(view api.Autoscaler, reason, message string) (count int64) {
	for _, event := range view.Events {
		if event.Reason == reason && event.Message == message {
			count += event.Count
		}
	}
	return count
}

// TestShortage runs autoscalers whose metrics request far more than max_replicas or the platform's
// limit. It checks that every view shows the shortage, and that its start adds one event and one
// history entry. A restart or a changed recommendation must not add more.
func TestShortage(t *testing.T) {
	for _, test := range []struct {
		name, reason, want string
		change             func(*daemontest.World)
	}{
		{"max_replicas", "TooManyReplicas", "wants 61, max 2", func(w *daemontest.World) {
			w.AddWithValue("web", 1, 61, func(a *config.Autoscaler) { a.Spec.MaxReplicas = 2 })
		}},
		{"platform", "PlatformMax", "wants 61, max 3 (PlatformMax)", func(w *daemontest.World) {
			w.AddWithValue("web", 1, 61)
			w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Max = new(int32(3)) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				test.change(w)
				w.Start()
				w.Advance(time.Second)
				if view := w.View("web"); view.Evaluation.Shortage == nil || eventsThat(view, test.reason, test.want) != 0 {
					t.Errorf("pass that reaches the maximum: shortage = %v, events = %+v, want a shortage and no event", view.Evaluation.Shortage, view.Events)
				}
				w.Advance(2 * time.Minute)
				problem := api.Problem{Subject: "autoscaler web", Message: test.want}
				check := func(want bool) {
					t.Helper()
					shortage := w.View("web").Evaluation.Shortage
					if got := shortage != nil && shortage.String() == test.want; got != want {
						t.Errorf("shortage = %v, want %v", shortage, want)
					}
					if got := slices.Contains(w.Daemon.Health().Shortages, problem); got != want {
						t.Errorf("health %+v contains the shortage: %v, want %v", w.Daemon.Health(), got, want)
					}
					if got := slices.Contains(w.Daemon.Readiness().Problems, problem); got != want {
						t.Errorf("readiness %+v contains the shortage: %v, want %v", w.Daemon.Readiness(), got, want)
					}
				}
				check(true)
				w.Source().Value("web", 70) // other numbers
				w.Advance(2 * time.Minute)
				if view := w.View("web"); eventsThat(view, test.reason, test.want) != 1 || eventsThat(view, test.reason, strings.Replace(test.want, "61", "70", 1)) != 0 {
					t.Errorf("events = %+v, want one %s: %s", view.Events, test.reason, test.want)
				}
				entries := 0
				for _, entry := range w.HistoryOf("web") {
					if slices.Contains(entry.Events, policy.Event{Kind: policy.WarningEvent, Reason: test.reason, Message: test.want}) {
						entries++
					}
				}
				if entries != 1 {
					t.Errorf("%d history entries with the event, want 1", entries)
				}
				w.Source().Value("web", 61)
				w.Stop()
				w.Start()
				w.Advance(2 * time.Minute)
				check(true)
				if view := w.View("web"); eventsThat(view, test.reason, test.want) > 1 {
					t.Errorf("events after a restart = %+v, want one %s", view.Events, test.reason)
				}
				w.Source().Value("web", 1) // only the window keeps the count high
				w.Advance(time.Minute)
				check(false)
				if view := w.View("web"); eventsThat(view, "DesiredWithinRange", "the recommendation is within the maximum again") != 1 {
					t.Errorf("events = %+v, want one event for the end", view.Events)
				}
			})
		})
	}
}

// TestFailing checks that hpad reports a failure of all autoscalers, and lists the failing ones if
// another one succeeds. For a failure of all, autoscalers with mode off are ignored.
func TestFailing(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("api", 1)
		w.Add("web", 1)
		w.AddWithValue("off", 1, 1, func(a *config.Autoscaler) { a.Mode = policy.ModeOff })
		w.Start()
		w.Advance(time.Minute)
		if health := w.Daemon.Health(); !strings.HasPrefix(health.AllFailing, "autoscaler api: 1 of 1 metrics failed") || health.Strictly() {
			t.Errorf("health = %+v, want all passes failing", health)
		}
		w.Source().Value("web", 1)
		w.Advance(time.Minute)
		if health := w.Daemon.Health(); health.AllFailing != "" || !health.Strictly() || len(health.Failing) != 1 || health.Failing[0].Subject != "autoscaler api" {
			t.Errorf("health = %+v, want only api failing", health)
		}
		w.Source().Value("api", 1)
		w.Advance(time.Minute)
		if health := w.Daemon.Health(); len(health.Failing) > 0 {
			t.Errorf("failing = %+v, want none", health.Failing)
		}
	})
}
