package daemon

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// TestNextComesTrue checks that the predicted change happens at the predicted tick if the metrics
// do not change.
func TestNextComesTrue(t *testing.T) {
	policies := func(window int32, all ...policy.ScalingPolicy) *policy.ScalingRules {
		return &policy.ScalingRules{StabilizationWindowSeconds: &window, Policies: all}
	}
	two := policy.ScalingPolicy{Type: policy.InstancesPolicy, Value: 2, PeriodSeconds: 50}
	tenth := policy.ScalingPolicy{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 100}
	for name, edit := range map[string]func(*config.Autoscaler){
		"without behavior": func(*config.Autoscaler) {},
		"windows":          behaves(policies(100, two), policies(170, tenth)),
		"rates":            behaves(policies(0, tenth), policies(0, two)),
		"own period": func(a *config.Autoscaler) {
			behaves(policies(20, two), policies(25, two))(a)
			a.SyncPeriod = 7 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fed("web", 20, 20, edit)
				w.start()
				w.advance(time.Millisecond) // after the tick
				foretold := 0
				for _, value := range []float64{20, 9, 33, 3} {
					w.source().value("web", value)
					w.advance(time.Minute) // longer than every window
					for range 1200 {
						before, count := w.view("web").Next, w.fleet().Replicas("web")
						if before == nil || before.Count != count {
							t.Fatalf("next is %+v at %d replicas", before, count)
						}
						w.advance(time.Second)
						now := time.Now().Add(-time.Millisecond)
						after, due := w.fleet().Replicas("web"), !before.At.IsZero() && !before.At.After(now)
						if after != count != due || due && (after != before.Replicas || !before.At.Equal(now)) {
							t.Fatalf("%d -> %d replicas at %s, said was %d at %s (%+v)", count, after, now, before.Replicas, before.At, before.Waits)
						}
						if due {
							foretold++
						}
					}
				}
				if foretold < 2 {
					t.Errorf("%d changes were foretold", foretold)
				}
				w.stop()
			})
		})
	}
}

// TestNextWaits checks reasons outside of the algorithm that delay a change: an unsettled write, a
// quarantine, a dry run, and a hold that was only detected by the write.
func TestNextWaits(t *testing.T) {
	for word, code := range map[string]reason.Code{
		"UnknownOutcome": reason.UnknownOutcome, "Quarantined": reason.Quarantined, "DryRun": reason.DryRun, "Busy": reason.Held,
	} {
		t.Run(word, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				endings[code](w, &told{w: w, shown: map[string]bool{}})
				next := w.view("web").Next
				if next == nil {
					t.Fatal("nothing is said")
				}
				found := false
				for _, wait := range next.Waits {
					found = found || wait.Reason == word
				}
				if !found {
					t.Errorf("waits %+v, want %s", next.Waits, word)
				}
				w.stop()
			})
		})
	}
}
