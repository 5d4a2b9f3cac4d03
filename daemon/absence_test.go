package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/sources"
)

// part returns a series of a diagnosis result: the named part of the diagnosis, with labels.
func part(name string, labels ...sources.Label) sources.Series {
	return sources.Series{Labels: append(sources.Labels{{Name: "hpad_part", Value: name}}, labels...), Value: 1}
}

// TestAbsence checks that the error of a metric without a value contains the diagnosed cause from
// the next pass on, and that a query is diagnosed at most once per minute.
func TestAbsence(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.fed("web", 6, 6, func(a *config.Autoscaler) { a.Inputs[0].Query = `queue{name="chekout"}` })
		var diagnoses atomic.Int64
		w.source().setDiagnose(func(_ context.Context, text string, _ time.Time) (sources.Vector, error) {
			if !strings.Contains(text, `count(queue{name="chekout"})`) {
				t.Errorf("unexpected diagnosis query %s", text)
			}
			diagnoses.Add(1)
			return sources.Vector{Series: []sources.Series{part("whole"), part("like0", sources.Label{Name: "name", Value: "checkout"})}}, nil
		})
		w.start()
		w.advance(16 * time.Second)
		const want = `the source returned no value: there are series named "queue", but none with {name="chekout"}; there are {name="checkout"}`
		if got := w.view("web").Evaluation.Error; !strings.Contains(got, want) {
			t.Errorf("error = %q, want %q", got, want)
		}
		w.advance(10 * time.Minute)
		if n := diagnoses.Load(); n < 9 || n > 11 {
			t.Errorf("%d diagnoses in 10 minutes, want one per minute", n)
		}
		w.wantCount("web", 6)
		w.source().value(`queue{name="chekout"}`, 4)
		w.advance(10 * time.Minute)
		if n := diagnoses.Load(); n > 11 {
			t.Errorf("%d diagnoses, want no more after the first result", n)
		}
		w.wantCount("web", 4)
		w.source().set(`queue{name="chekout"}`, func(context.Context, time.Time) (sources.Vector, error) { return sources.Vector{}, nil })
		w.source().setDiagnose(func(context.Context, string, time.Time) (sources.Vector, error) {
			return sources.Vector{}, errors.New("refused")
		})
		w.advance(time.Minute)
		if got := w.view("web").Evaluation.Error; !strings.HasSuffix(got, "the source returned no value") {
			t.Errorf("error = %q, want no cause", got)
		}
	})
}

// TestAbsenceDelaysNoPass checks that hanging diagnoses do not delay passes, even if they ignore
// their context, and that the number of concurrent diagnoses is limited.
func TestAbsenceDelaysNoPass(t *testing.T) {
	for name, heeds := range map[string]bool{"stops with its context": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				for i := range 100 {
					w.fed(fmt.Sprintf("web-%d", i), 6, 6, func(a *config.Autoscaler) { a.Inputs[0].Query = fmt.Sprintf("queue_%d", i) })
				}
				w.fed("other", 6, 6)
				var diagnoses atomic.Int64
				stuck := make(chan struct{})
				w.source().setDiagnose(func(ctx context.Context, _ string, _ time.Time) (sources.Vector, error) {
					diagnoses.Add(1)
					if !heeds {
						<-stuck
					}
					<-ctx.Done()
					return sources.Vector{}, ctx.Err()
				})
				w.start()
				w.advance(5 * time.Minute)
				for _, name := range []string{"web-0", "web-99", "other"} {
					view := w.view(name)
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

// TestSampleAge checks that explain shows the age of a sample if it exceeds the sync period. It
// measures the age with an additional query.
func TestSampleAge(t *testing.T) {
	const want = "oldest sample: 40s old, more than the sync period"
	for name, c := range map[string]struct {
		measured time.Duration
		want     string
	}{
		"measured":        {40 * time.Second, want},
		"measured, young": {14 * time.Second, ""},
		"unknown":         {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 6, 6)
				queries := 0
				w.source().setDiagnose(func(_ context.Context, text string, _ time.Time) (sources.Vector, error) {
					if queries++; !strings.Contains(text, "time() - timestamp(web)") {
						t.Errorf("unexpected age query %s", text)
					}
					if c.measured == 0 {
						return sources.Vector{}, nil
					}
					age := part("whole")
					age.Value = c.measured.Seconds()
					return sources.Vector{Series: []sources.Series{age}}, nil
				})
				w.start()
				w.advance(time.Minute)
				if queries > 0 {
					t.Errorf("%d queries for ages that are not shown, want 0", queries)
				}
				var text strings.Builder
				for range 10 {
					text.Reset()
					if err := explain.Write(&text, w.view("web").Explanation(), time.UTC); err != nil {
						t.Fatal(err)
					}
				}
				if got := strings.Contains(text.String(), "oldest sample"); got != (c.want != "") || !strings.Contains(text.String(), c.want) {
					t.Errorf("explain output:\n%s\nwant %q", text.String(), c.want)
				}
				if queries > 1 {
					t.Errorf("%d queries for 10 consecutive views, want at most 1", queries)
				}
			})
		})
	}
}
