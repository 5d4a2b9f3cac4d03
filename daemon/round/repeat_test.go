package round_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets/targettest"
)

// TestRepeatedPasses compares an autoscaler with a constant value, whose passes repeat each other,
// with one whose value changes within the tolerance at each tick. Their records, events and counts
// must be the same, also after a change of the value, a pause, an external writer and a restart.
func TestRepeatedPasses(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		var load atomic.Int64 // in thousandths
		load.Store(5000)
		value := func(changing bool) func(context.Context, time.Time) (sources.Vector, error) {
			return func(_ context.Context, at time.Time) (sources.Vector, error) {
				if even := at.Unix()/15%2 == 0; changing && even {
					return daemontest.Vector(float64(load.Load()-10)/1000, at), nil
				}
				return daemontest.Vector(float64(load.Load())/1000, at), nil
			}
		}
		for name, changing := range map[string]bool{"same": false, "changing": true} {
			w.Add(name, 5)
			w.Source().Set(name, value(changing))
		}
		w.Start()
		for _, step := range []struct {
			act  func()
			want int32
		}{
			{func() {}, 5},
			{func() { load.Store(2000) }, 2}, // after the window of 5 minutes
			{func() { w.Pause(policy.Scope{}, policy.BothDirections, time.Minute) }, 2},
			{func() {
				for _, name := range []string{"same", "changing"} {
					w.Fleet().Change(name, func(target *targettest.MemoryTarget) { target.Replicas = 7 })
				}
			}, 2},
			{func() { load.Store(9000) }, 9},
			{func() { w.Stop(); w.Start() }, 9},
			{func() { load.Store(1000) }, 1},
		} {
			step.act()
			for range 7 {
				w.Advance(time.Minute)
				compareAutoscalers(t, w, "same", "changing")
			}
			w.WantCount("same", step.want)
		}
		w.Stop()
	})
}

// compareAutoscalers compares the states of two autoscalers whose targets and metrics are alike.
func compareAutoscalers(t *testing.T, w *daemontest.World, a, b string) {
	t.Helper()
	ignored := cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0),
		cmpopts.IgnoreFields(state.Record{}, "Target", "Fingerprint", "Digest"), cmpopts.IgnoreFields(policy.Status{}, "Metrics"),
		cmpopts.IgnoreFields(policy.Decision{}, "Metrics"), cmpopts.IgnoreFields(api.Evaluation{}, "DurationSeconds"), cmpopts.IgnoreUnexported(policy.Decision{}),
	}
	if diff := cmp.Diff(w.Record(a), w.Record(b), ignored); diff != "" {
		t.Fatalf("records at %s (-%s +%s):\n%s", time.Now().Format(time.TimeOnly), a, b, diff)
	}
	x, y := w.View(a), w.View(b)
	if diff := cmp.Diff(x.Evaluation, y.Evaluation, ignored); diff != "" {
		t.Fatalf("evaluations (-%s +%s):\n%s", a, b, diff)
	}
	if diff := cmp.Diff(x.Decision, y.Decision, ignored); diff != "" {
		t.Fatalf("decisions (-%s +%s):\n%s", a, b, diff)
	}
	if diff := cmp.Diff(x.Events, y.Events, ignored); diff != "" {
		t.Fatalf("events (-%s +%s):\n%s", a, b, diff)
	}
	if got, want := len(w.HistoryOf(a)), len(w.HistoryOf(b)); got != want {
		t.Fatalf("%s has %d history entries, %s has %d", a, got, b, want)
	}
	if age := time.Since(x.Evaluation.Last); age > 15*time.Second {
		t.Fatalf("last evaluation of %s was %s ago", a, age)
	}
}
