package state_test

import (
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

func TestRemovalsWithin(t *testing.T) {
	const window = 10 * time.Minute
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	removals := state.Removals{
		Rounds: []state.Removal{{Time: now.Add(-window), Instances: 1}, {Time: now.Add(-window + 1), Instances: 2}, {Time: now, Instances: 4}},
		Waived: now.Add(24 * time.Hour),
	}
	within := removals.Within(window, now)
	if within.Sum() != 6 || !within.Waived.Equal(now.Add(window)) {
		t.Errorf("removed = %d, waived until %s", within.Sum(), within.Waived)
	}
	if later := within.Within(window, now.Add(window)); !later.Empty() {
		t.Errorf("removals after the window = %v", later)
	}
}
