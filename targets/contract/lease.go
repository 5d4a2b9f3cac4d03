package contract

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/targets"
)

// changesNothingAfterLease checks that a fleet whose lease has ended still reads its targets, but
// sends no counts, removals or repairs to the platform.
func changesNothingAfterLease[T TB](t *trial[T]) {
	var ended atomic.Bool
	t.Lease = func() time.Time {
		if ended.Load() {
			return time.Now()
		}
		return time.Now().Add(time.Hour)
	}
	f := t.open()
	f.scale(t.Refs[0], 4)
	reading := f.settle(t.Refs[0], 4)
	before := t.Writes()
	ended.Store(true)
	if remover, ok := f.Fleet.(targets.Remover); ok {
		if err := remover.Remove(t.Context(), t.Refs[0], []string{reading.Instances[0].ID}, reading.Version, "contract suite"); !errors.Is(err, targets.ErrLeaseEnded) {
			t.Errorf("Remove() after the lease = %v, want ErrLeaseEnded", err)
		}
	}
	if err := f.SetReplicas(t.Context(), t.Refs[0], 5, reading.Version, "contract suite"); !errors.Is(err, targets.ErrLeaseEnded) {
		t.Errorf("SetReplicas(5) after the lease = %v, want ErrLeaseEnded", err)
	}
	// This call may succeed: a fleet may record victims, which the next owner then removes.
	_ = f.SetReplicas(t.Context(), t.Refs[0], 1, reading.Version, "contract suite")
	for range 3 {
		f.read(t.Refs[0])
	}
	f.close() // waits for background work
	if got := t.Writes(); got != before {
		t.Errorf("changes after the lease = %d, want 0", got-before)
	}
}
