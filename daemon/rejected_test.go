package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
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
			inWorld(t, func(t *testing.T, w *world) {
				core, logs := observer.New(zap.InfoLevel)
				w.log = zap.New(core)
				if shared {
					w.until = func() time.Time { return time.Now().Add(time.Hour) }
				}
				w.store.largest = 20_000
				w.fed("big", 3, 3, func(a *config.Autoscaler) { a.Labels = map[string]string{"hpad.x": strings.Repeat("x", 80_000)} })
				w.fed("small", 3, 3)
				w.start()
				w.advance(time.Minute)
				w.source().value("big", 6)
				w.source().value("small", 6)
				w.advance(20 * time.Minute)
				if big, small := w.fleet().Replicas("big"), w.fleet().Replicas("small"); big != 3 || small != 6 {
					t.Errorf("counts = %d and %d, want 3 for the autoscaler that is not evaluated, and 6", big, small)
				}
				if record, _ := w.store.record("small"); record.ExpectedReplicas == nil || *record.ExpectedReplicas != 6 || record.Intention != nil {
					t.Errorf("record of the other autoscaler = %+v", record)
				}
				if _, found := w.store.record("big"); found || w.daemon.Health().Unwritten != "" {
					t.Errorf("the store contains an oversized record, or writing it failed: %s", w.daemon.Health().Unwritten)
				}
				const want = "the limit is 20000"
				is := func(p api.Problem) bool { return p.Subject == "autoscaler big" && strings.Contains(p.Message, want) }
				if health := w.daemon.Health(); len(health.Unevaluated) != 1 || !is(health.Unevaluated[0]) || !health.Healthy || health.Strictly() {
					t.Errorf("health = %+v", health)
				}
				if readiness := w.daemon.Readiness(); !readiness.Ready || len(readiness.Problems) != 1 || !is(readiness.Problems[0]) {
					t.Errorf("readiness = %+v", readiness)
				}
				view := w.view("big")
				if !view.Evaluation.Unevaluated || !strings.Contains(view.Evaluation.Error, want) || w.view("small").Evaluation.Unevaluated {
					t.Errorf("view = %+v", view.Evaluation)
				}
				if problem := explain.Problem(view, w.wall()); !strings.HasPrefix(problem, "quarantined for ") || !strings.Contains(problem, "rejects the record") {
					t.Errorf("problem = %q", problem)
				}
				if logged := logs.FilterMessage("record rejected by the state store").Len(); logged == 0 || logged > 10 {
					t.Errorf("the rejection was logged %d times in 20 minutes, want 1 to 10", logged)
				}
				if got := w.daemon.ScaleTo(t.Context(), "big", 5, false, ""); !errors.Is(got, api.ErrRefused) {
					t.Errorf("error for a count set by an operator = %v", got)
				}

				w.config.Autoscalers["big"].Labels = nil
				if _, err := w.daemon.Reload(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.advance(5 * time.Minute)
				if got := w.fleet().Replicas("big"); got != 6 || len(w.daemon.Health().Unevaluated) > 0 {
					t.Errorf("count without the labels = %d, want 6", got)
				}
				w.stop()
			})
		})
	}
}

// TestLongTexts checks that the stored record remains small if a platform and a source return
// messages with a megabyte of text.
func TestLongTexts(t *testing.T) {
	long := errors.New(strings.Repeat("long ", 200_000))
	for name, set := range map[string]func(w *world){
		"metric": func(w *world) {
			w.source().set("q", func(context.Context, time.Time) (sources.Vector, error) { return sources.Vector{}, long })
		},
		"read": func(w *world) {
			w.fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Err = long }
			})
		},
		"write": func(w *world) {
			w.source().value("q", 6)
			w.fleet().Inject(targettest.Fault{Call: targettest.WriteCall, Err: long})
		},
		"hold": func(w *world) {
			w.fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Hold = &policy.Hold{Reason: "Updating", Message: long.Error()} }
			})
		},
		"notice": func(w *world) {
			w.fleet().Change("q", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) {
					reading.Notices = []policy.Notice{{Condition: "Failing", Reason: "Failing", Message: long.Error()}}
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.store.largest = 20_000
				w.fed("q", 3, 3)
				set(w)
				w.start()
				w.advance(3 * time.Minute)
				if _, found := w.store.record("q"); !found || len(w.daemon.Health().Unevaluated) > 0 {
					t.Errorf("the record was rejected: %.500v", w.daemon.Health())
				}
				if !slices.ContainsFunc(w.view("q").Status.Conditions, func(c policy.Condition) bool { return strings.Contains(c.Message, "long long") }) {
					t.Errorf("the conditions do not contain the text: %.500v", w.view("q").Status.Conditions)
				}
				w.stop()
			})
		})
	}
}
