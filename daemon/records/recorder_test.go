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
