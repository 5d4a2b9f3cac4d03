package round_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// TestRejectedRecord checks that an autoscaler whose record the store rejects is not evaluated, and
// that every view shows this. The other autoscaler is scaled and recorded.
func TestRejectedRecord(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(map[bool]string{false: "one host", true: "cluster"}[shared], func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				logs := w.Observed()
				if shared {
					w.Until = func() time.Time { return time.Now().Add(time.Hour) }
				}
				w.Store.Largest = 20_000
				w.AddWithValue("big", 3, 3, func(a *config.Autoscaler) { a.Labels = map[string]string{"hpad.x": strings.Repeat("x", 80_000)} })
				w.AddWithValue("small", 3, 3)
				w.Start()
				w.Advance(time.Minute)
				w.Source().Value("big", 6)
				w.Source().Value("small", 6)
				w.Advance(20 * time.Minute)
				if big, small := w.Fleet().Replicas("big"), w.Fleet().Replicas("small"); big != 3 || small != 6 {
					t.Errorf("counts = %d and %d, want 3 for the autoscaler that is not evaluated, and 6", big, small)
				}
				if record, _ := w.Store.Record("small"); record.ExpectedReplicas == nil || *record.ExpectedReplicas != 6 || record.Intention != nil {
					t.Errorf("record of the other autoscaler = %+v", record)
				}
				if _, found := w.Store.Record("big"); found || w.Daemon.Health().Unwritten != "" {
					t.Errorf("the store contains an oversized record, or writing it failed: %s", w.Daemon.Health().Unwritten)
				}
				const want = "the limit is 20000"
				is := func(p api.Problem) bool { return p.Subject == "autoscaler big" && strings.Contains(p.Message, want) }
				if health := w.Daemon.Health(); len(health.Unevaluated) != 1 || !is(health.Unevaluated[0]) || !health.Healthy || health.Strictly() {
					t.Errorf("health = %+v", health)
				}
				if readiness := w.Daemon.Readiness(); !readiness.Ready || len(readiness.Problems) != 1 || !is(readiness.Problems[0]) {
					t.Errorf("readiness = %+v", readiness)
				}
				view := w.View("big")
				if !view.Evaluation.Unevaluated || !strings.Contains(view.Evaluation.Error, want) || w.View("small").Evaluation.Unevaluated {
					t.Errorf("view = %+v", view.Evaluation)
				}
				if problem := explain.Problem(view, w.Wall()); !strings.HasPrefix(problem, "quarantined for ") || !strings.Contains(problem, "rejects the record") {
					t.Errorf("problem = %q", problem)
				}
				if logged := logs.FilterMessage("record rejected by the state store").Len(); logged == 0 || logged > 10 {
					t.Errorf("the rejection was logged %d times in 20 minutes, want 1 to 10", logged)
				}
				if got := w.Daemon.ScaleTo(t.Context(), "big", 5, false, ""); !errors.Is(got, api.ErrRefused) {
					t.Errorf("error for a count set by an operator = %v", got)
				}

				w.Config.Autoscalers["big"].Labels = nil
				w.Reload()
				w.Advance(5 * time.Minute)
				if got := w.Fleet().Replicas("big"); got != 6 || len(w.Daemon.Health().Unevaluated) > 0 {
					t.Errorf("count without the labels = %d, want 6", got)
				}
				w.Stop()
			})
		})
	}
}

// TestLongTexts checks that the stored record remains small if a platform and a source return
// messages with a megabyte of text.
func TestLongTexts(t *testing.T) {
	long := errors.New(strings.Repeat("long ", 200_000))
	for name, set := range map[string]func(w *daemontest.World){
		"metric": func(w *daemontest.World) {
			w.Source().Set("q", func(context.Context, time.Time) (sources.Vector, error) { return sources.Vector{}, long })
		},
		"read": func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Err = long }
			})
		},
		"write": func(w *daemontest.World) {
			w.Source().Value("q", 6)
			w.Fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: long})
		},
		"hold": func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Hold = &policy.Hold{Reason: "Updating", Message: long.Error()} }
			})
		},
		"notice": func(w *daemontest.World) {
			w.Fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) {
					reading.Notices = []policy.Notice{{Condition: "Failing", Reason: "Failing", Message: long.Error()}}
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Store.Largest = 20_000
				w.AddWithValue("q", 3, 3)
				set(w)
				w.Start()
				w.Advance(3 * time.Minute)
				if _, found := w.Store.Record("q"); !found || len(w.Daemon.Health().Unevaluated) > 0 {
					t.Errorf("the record was rejected: %.500v", w.Daemon.Health())
				}
				if !slices.ContainsFunc(w.View("q").Status.Conditions, func(c policy.Condition) bool { return strings.Contains(c.Message, "long long") }) {
					t.Errorf("the conditions do not contain the text: %.500v", w.View("q").Status.Conditions)
				}
				w.Stop()
			})
		})
	}
}
