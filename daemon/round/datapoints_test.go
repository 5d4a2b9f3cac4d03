package round_test

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/targets/targettest"
)

// TestGraph checks that passes add one data point per 15 s of the wall clock, including after a
// restart, and that unknown values are marked as unknown.
func TestGraph(t *testing.T) {
	daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
		path := filepath.Join(t.TempDir(), "graph.db")
		w.Graph = graph.New(path, w.Log, func(n int) { t.Errorf("%d data points were lost", n) })
		w.Config.Daemon.SyncPeriod = 5 * time.Second
		w.AddWithValue("web", 2, 20, func(a *config.Autoscaler) {
			again := a.Spec.Metrics[0]
			a.Spec.Metrics, a.Inputs = append(a.Spec.Metrics, again), append(a.Inputs, a.Inputs[0])
		})
		begin := time.Now()
		w.Start()
		w.Advance(3 * time.Minute)
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Err = errors.New("platform unavailable") })
		w.Advance(3 * time.Minute)
		w.Stop()
		w.Graph = graph.New(path, w.Log, nil)
		w.Fleet().Change("web", func(target *targettest.MemoryTarget) { target.Err = nil })
		w.Start()
		if early, err := w.Daemon.Graph(t.Context(), "web", begin, time.Now()); err != nil || len(early.Time) < 23 {
			t.Errorf("%d data points after a restart (%v), want the earlier points", len(early.Time), err)
		}
		w.StepClock(time.Hour)
		w.Advance(3 * time.Minute)
		defer w.Stop()
		got, err := w.Daemon.Graph(t.Context(), "web", begin.Add(time.Hour), time.Now().Add(time.Hour))
		if err != nil || len(got.Metrics) != 2 || got.Metrics[0].Name != "queue" || got.Metrics[1].Name != "queue (2)" {
			t.Fatalf("metrics = %+v, error = %v", got.Metrics, err)
		}
		near := 0
		for i := 1; i < len(got.Time); i++ {
			if gap := got.Time[i] - got.Time[i-1]; gap < 15 {
				near++
			} else if gap > 25 {
				t.Errorf("interval between two points = %d s, want 15", gap)
			}
		}
		if near > 1 { // the restart adds a point
			t.Errorf("%d points are too close together, want at most 1", near)
		}
		if n := len(got.Time); n < 33 || n > 37 || got.Time[n-1] < w.Wall().Add(-20*time.Second).Unix() {
			t.Errorf("%d points in 9 minutes, the last at %v", n, time.Unix(got.Time[n-1], 0))
		}
		gone, known := 0, 0
		for i := range got.Time {
			if math.IsNaN(got.Replicas[i]) {
				gone++
				if !math.IsNaN(got.Desired[i]) || !math.IsNaN(got.Metrics[0].Values[i]) || !math.IsNaN(got.Metrics[1].Proposals[i]) {
					t.Errorf("point %d contains values of an unreadable target", i)
				}
				continue
			}
			known++
			if got.Min[i] != 1 || got.Max[i] < got.Desired[i] || math.Abs(got.Metrics[0].Values[i]-20/got.Replicas[i]) > 0.01 && got.Metrics[0].Values[i] != 20 {
				t.Errorf("point %d: replicas = %v, bounds = %v to %v, desired = %v, metric = %v", i, got.Replicas[i], got.Min[i], got.Max[i], got.Desired[i], got.Metrics[0].Values[i])
			}
		}
		if gone < 11 || gone > 13 || known < 22 {
			t.Errorf("in 3 minutes: %d points without a count, %d points with a count", gone, known)
		}
		if !slices.ContainsFunc(got.Metrics[0].Proposals, func(v float64) bool { return v > got.Replicas[0] }) {
			t.Errorf("no proposal above %v", got.Replicas[0])
		}
	})
}
