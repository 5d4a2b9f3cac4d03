package round_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// unready makes all instances of a target unready.
func unready(w *daemontest.World, name string) {
	ref := w.Fleet().Ref(name)
	readings, err := w.Fleet().Snapshot(w.T.Context(), []targets.Ref{ref})
	if err != nil {
		w.T.Fatal(err)
	}
	for i := range readings[ref].Instances {
		w.Fleet().SetReady(name, readings[ref].Instances[i].ID, false)
	}
}

// TestOutageOverRestarts checks that an outage holds the count for outage_hold, that the hold
// includes restarts, and that it is not affected by clock steps.
func TestOutageOverRestarts(t *testing.T) {
	for name, step := range map[string]time.Duration{"restart": 0, "clock set back": -time.Hour, "clock set forward": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.Config.Daemon.DownscaleStabilization = 0
				w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) { a.OutageHold = new(3 * time.Minute) })
				w.Start()
				w.Advance(time.Minute)
				began := time.Now()
				unready(w, "web")
				w.Source().Value("web", 2)
				w.Advance(75 * time.Second)
				first := w.Record("web").Memory.NoReadySince
				if got := w.View("web"); got.Evaluation.Reason != "NoReadyInstance" || w.Condition("web", policy.ScalingLimited) != "True/NoReadyInstance" {
					t.Fatalf("reason = %s, ScalingLimited = %s, start of the outage = %s", got.Evaluation.Reason, w.Condition("web", policy.ScalingLimited), first)
				}
				w.Stop()
				w.StepClock(step)
				w.Advance(20 * time.Second)
				w.Start()
				w.Advance(time.Minute)
				if got := w.Record("web").Memory.NoReadySince; !got.Equal(first) { // monotonic
					t.Errorf("start of the outage after the restart = %s, want %s", got, first)
				}
				if wait := w.View("web").Next.Waits[0]; wait.Reason != "NoReadyInstance" || !wait.Until.Equal(first.Add(step+3*time.Minute)) {
					t.Errorf("next: %+v", wait)
				}
				if got := w.Fleet().Replicas("web"); got != 6 {
					t.Fatalf("replicas during the hold = %d", got)
				}
				w.Advance(45 * time.Second)
				want := []string{fmt.Sprintf("%s: 6>2", first.Sub(began)+3*time.Minute)}
				if got := w.Writes("web", began); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("writes = %v, want %v", got, want)
				}
				w.Stop()
			})
		})
	}
}
