package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/sources"
)

// TestAbsence checks that the error of a metric without a value contains the diagnosed cause from
// the next pass on, and that a query is diagnosed at most once per minute.
func TestAbsence(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) { a.Inputs[0].Query = `queue{name="chekout"}` })
		var diagnoses atomic.Int64
		w.Source().SetDiagnose(func(_ context.Context, text string, _ time.Time) (sources.Vector, error) {
			if !strings.Contains(text, `count(queue{name="chekout"})`) {
				t.Errorf("unexpected diagnosis query %s", text)
			}
			diagnoses.Add(1)
			return sources.Vector{Series: []sources.Series{daemontest.Part("whole"), daemontest.Part("like0", sources.Label{Name: "name", Value: "checkout"})}}, nil
		})
		w.Start()
		w.Advance(16 * time.Second)
		const want = `the source returned no value: there are series named "queue", but none with {name="chekout"}; there are {name="checkout"}`
		if got := w.View("web").Evaluation.Error; !strings.Contains(got, want) {
			t.Errorf("error = %q, want %q", got, want)
		}
		w.Advance(10 * time.Minute)
		if n := diagnoses.Load(); n < 9 || n > 11 {
			t.Errorf("%d diagnoses in 10 minutes, want one per minute", n)
		}
		w.WantCount("web", 6)
		w.Source().Value(`queue{name="chekout"}`, 4)
		w.Advance(10 * time.Minute)
		if n := diagnoses.Load(); n > 11 {
			t.Errorf("%d diagnoses, want no more after the first result", n)
		}
		w.WantCount("web", 4)
		w.Source().Set(`queue{name="chekout"}`, func(context.Context, time.Time) (sources.Vector, error) { return sources.Vector{}, nil })
		w.Source().SetDiagnose(func(context.Context, string, time.Time) (sources.Vector, error) {
			return sources.Vector{}, errors.New("refused")
		})
		w.Advance(time.Minute)
		if got := w.View("web").Evaluation.Error; !strings.HasSuffix(got, "the source returned no value") {
			t.Errorf("error = %q, want no cause", got)
		}
	})
}

// TestAbsenceDelaysNoPass checks that hanging diagnoses do not delay passes, even if they ignore
// their context, and that the number of concurrent diagnoses is limited.
func TestAbsenceDelaysNoPass(t *testing.T) {
	for name, heeds := range map[string]bool{"stops with its context": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				for i := range 100 {
					w.AddWithValue(fmt.Sprintf("web-%d", i), 6, 6, func(a *config.Autoscaler) { a.Inputs[0].Query = fmt.Sprintf("queue_%d", i) })
				}
				w.AddWithValue("other", 6, 6)
				var diagnoses atomic.Int64
				stuck := make(chan struct{})
				w.Source().SetDiagnose(func(ctx context.Context, _ string, _ time.Time) (sources.Vector, error) {
					diagnoses.Add(1)
					if !heeds {
						<-stuck
					}
					<-ctx.Done()
					return sources.Vector{}, ctx.Err()
				})
				w.Start()
				w.Advance(5 * time.Minute)
				for _, name := range []string{"web-0", "web-99", "other"} {
					view := w.View(name)
					if late := view.Evaluation.Late; late > 0 || time.Since(view.Evaluation.Last) > 15*time.Second || view.Evaluation.DurationSeconds > 0.1 {
						t.Errorf("%s: %d late ticks, last pass %s ago with a duration of %g s", name, late, time.Since(view.Evaluation.Last), view.Evaluation.DurationSeconds)
					}
				}
				if n := diagnoses.Load(); n == 0 || n > 30 {
					t.Errorf("%d diagnoses, want at most one per round", n)
				}
				close(stuck)
			})
		})
	}
}

// TestDiagnosesPerRound checks that a round diagnoses at most 20 queries of a source.
func TestDiagnosesPerRound(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		for i := range 50 {
			w.Add(fmt.Sprintf("web-%d", i), 6, func(a *config.Autoscaler) { a.Inputs[0].Query = fmt.Sprintf("queue_%d", i) })
		}
		var diagnoses atomic.Int64
		w.Source().SetDiagnose(func(context.Context, string, time.Time) (sources.Vector, error) {
			diagnoses.Add(1)
			return sources.Vector{}, nil
		})
		w.Start()
		for _, want := range []int64{20, 40, 50, 50} {
			if got := diagnoses.Load(); got != want {
				t.Errorf("%d diagnoses, want %d", got, want)
			}
			w.Advance(15 * time.Second)
		}
	})
}

// TestAlternatingResult checks that a query with alternating results is diagnosed at most once per
// minute.
func TestAlternatingResult(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		w.Add("web", 6)
		diagnoses, queries := 0, 0
		w.Source().SetDiagnose(func(context.Context, string, time.Time) (sources.Vector, error) {
			diagnoses++
			return sources.Vector{}, nil
		})
		w.Source().Set("web", func(_ context.Context, at time.Time) (sources.Vector, error) {
			if queries++; queries%2 == 0 {
				return daemontest.Vector(6, at), nil
			}
			return sources.Vector{}, nil
		})
		w.Start()
		w.Advance(10 * time.Minute)
		if diagnoses < 9 || diagnoses > 11 {
			t.Errorf("%d diagnoses in 10 minutes, want one per minute", diagnoses)
		}
	})
}
