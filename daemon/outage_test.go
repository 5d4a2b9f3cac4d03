package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// unready makes all instances of a target unready.
func (w *world) unready(name string) {
	ref := w.fleet().Ref(name)
	readings, err := w.fleet().Snapshot(w.t.Context(), []targets.Ref{ref})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range readings[ref].Instances {
		w.fleet().SetReady(name, readings[ref].Instances[i].ID, false)
	}
}

// TestOutageOverRestarts checks that an outage holds the count for outage_hold, that the hold
// includes restarts, and that it is not affected by clock steps.
func TestOutageOverRestarts(t *testing.T) {
	for name, step := range map[string]time.Duration{"restart": 0, "clock set back": -time.Hour, "clock set forward": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.config.Daemon.DownscaleStabilization = 0
				w.fed("web", 6, 6, func(a *config.Autoscaler) { a.OutageHold = new(3 * time.Minute) })
				w.start()
				w.advance(time.Minute)
				began := time.Now()
				w.unready("web")
				w.source().value("web", 2)
				w.advance(75 * time.Second)
				first := w.record("web").Memory.NoReadySince
				if got := w.view("web"); got.Evaluation.Reason != "NoReadyInstance" || w.condition("web", policy.ScalingLimited) != "True/NoReadyInstance" {
					t.Fatalf("reason = %s, ScalingLimited = %s, start of the outage = %s", got.Evaluation.Reason, w.condition("web", policy.ScalingLimited), first)
				}
				w.stop()
				w.stepClock(step)
				w.advance(20 * time.Second)
				w.start()
				w.advance(time.Minute)
				if got := w.record("web").Memory.NoReadySince; !got.Equal(first) { // monotonic
					t.Errorf("start of the outage after the restart = %s, want %s", got, first)
				}
				if wait := w.view("web").Next.Waits[0]; wait.Reason != "NoReadyInstance" || !wait.Until.Equal(first.Add(step+3*time.Minute)) {
					t.Errorf("next: %+v", wait)
				}
				if got := w.fleet().Replicas("web"); got != 6 {
					t.Fatalf("replicas during the hold = %d", got)
				}
				w.advance(45 * time.Second)
				want := []string{fmt.Sprintf("%s: 6>2", first.Sub(began)+3*time.Minute)}
				if got := w.writes("web", began); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("writes = %v, want %v", got, want)
				}
				w.stop()
			})
		})
	}
}
