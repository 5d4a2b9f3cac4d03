package records

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// failing is a store that returns err from Commit.
type failing struct {
	state.Store
	err     error
	entries int
}

func (f *failing) Commit(_ context.Context, changes state.Changes) error {
	f.entries = len(changes.Entries)
	return f.err
}

// TestHistoryUnwritten checks that passes continue if only the history cannot be written, and that
// its entries are written later.
func TestHistoryUnwritten(t *testing.T) {
	store := &failing{err: errors.Join(state.RejectedError{"large": errors.New("too large")}, &state.HistoryError{Err: errors.New("disk full")})}
	var reported error
	r := NewRecorder(store, clock.New(clock.System{}), zap.NewNop(), func(_ time.Duration, _ int, err error) { reported = err })
	written := r.Record("web", &state.Record{}, state.Entry{Autoscaler: "web", Time: time.Now()})
	r.commit()
	if err := written.Wait(t.Context(), "web"); err != nil {
		t.Errorf("the record was not written: %v", err)
	}
	if err := written.Wait(t.Context(), "large"); err == nil {
		t.Error("the rejected record was reported as written")
	}
	if reported == nil {
		t.Error("the error was not reported")
	}
	store.err = nil
	r.commit()
	if store.entries != 1 || reported != nil {
		t.Errorf("entries written later = %d, reported errors = %v", store.entries, reported)
	}
}

// TestBreakers checks that the removals of a fleet are limited to the window, and that other fleets
// are not affected.
func TestBreakers(t *testing.T) {
	r := NewRecorder(&failing{}, clock.New(clock.System{}), zap.NewNop(), func(time.Duration, int, error) {})
	var b Breakers
	b.Restore(map[string]state.Removals{})
	start := time.Unix(0, 0)
	sum := int64(0)
	for i := range 3 { // 5 instances every 10 minutes, in a window of 15 minutes
		b.Change("prod", 15*time.Minute, start.Add(time.Duration(i)*10*time.Minute), r, func(removals *state.Removals) {
			sum = removals.Sum()
			removals.Rounds = append(removals.Rounds, state.Removal{Time: start.Add(time.Duration(i) * 10 * time.Minute), Instances: 5})
		})
		if want := int64(5 * min(i, 1)); sum != want {
			t.Errorf("sum before change %d = %d, want %d", i, sum, want)
		}
	}
	if within := b.Within("prod", 15*time.Minute, start.Add(20*time.Minute)); within.Sum() != 10 {
		t.Errorf("removals = %+v, want 10 instances", within)
	}
	if other := b.Within("test", 15*time.Minute, start); other.Sum() != 0 {
		t.Errorf("removals of another fleet = %+v", other)
	}
}
