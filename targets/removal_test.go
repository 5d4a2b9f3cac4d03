package targets_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// TestCompareForRemoval checks that instances are removed in the order of the ReplicaSet
// controller: instances that do not run, pending, unready, and then the most recently ready
// instances.
func TestCompareForRemoval(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add
	running := func(id string, ready policy.Readiness, started, changed time.Duration) policy.Instance {
		return policy.Instance{ID: id, Phase: policy.PhaseRunning, Readiness: ready, StartedAt: at(started), ReadinessChanged: at(changed)}
	}
	terminating := running("terminating", policy.ReadinessTrue, 0, 0)
	terminating.Deleting = true
	want := []policy.Instance{
		{ID: "failed", Phase: policy.PhaseFailed, StartedAt: at(time.Hour)},
		{ID: "finished", Phase: policy.PhaseSucceeded},
		terminating,
		{ID: "lost", Phase: policy.PhaseUnknown, Readiness: policy.ReadinessTrue},
		{ID: "pending", Phase: policy.PhasePending},
		running("unready, new", policy.ReadinessFalse, 2*time.Hour, 0),
		running("unready, old", policy.ReadinessUnknown, time.Hour, 3*time.Hour),
		running("ready, preferred", policy.ReadinessTrue, 0, 0),
		running("ready for a minute", policy.ReadinessTrue, 0, 3*time.Hour-time.Minute),
		running("ready for an hour, new", policy.ReadinessTrue, time.Hour, 2*time.Hour),
		running("ready for an hour, old", policy.ReadinessTrue, 0, 2*time.Hour),
	}
	prefer := func(i *policy.Instance) int {
		if strings.HasSuffix(i.ID, "preferred") {
			return -1
		}
		return 0
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, func(a, b policy.Instance) int { return targets.CompareForRemoval(&a, &b, prefer(&a)-prefer(&b)) })
	for i := range want {
		if got[i].ID != want[i].ID {
			t.Errorf("at %d is %q, want %q", i, got[i].ID, want[i].ID)
		}
	}
	a, b := running("a", policy.ReadinessTrue, 100*time.Millisecond, 200*time.Millisecond), running("b", policy.ReadinessTrue, 0, 900*time.Millisecond)
	if got := targets.CompareForRemoval(&a, &b, 0); got != 0 {
		t.Errorf("instances of the same second compare as %d, want 0", got)
	}
}
