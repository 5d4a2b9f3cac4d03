package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hpad/hpad/targets"
)

// Rival simulates an external writer that acts between two calls of a fleet. Fake platforms
// contain one and call Meet before each call. The zero value has no effect. Rival is safe for
// concurrent use.
type Rival struct {
	mu    sync.Mutex
	act   func()
	calls []string
}

// Before makes the rival act once, directly before the next call whose name starts with one of
// calls.
func (r *Rival) Before(act func(), calls ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.act, r.calls = act, calls
}

// Meet runs the rival's action if it waits for this call. The caller must not hold a lock that the
// action needs, and must call Meet before the call has any effect.
func (r *Rival) Meet(call string) {
	r.mu.Lock()
	act := r.act
	if act == nil || !slices.ContainsFunc(r.calls, func(begin string) bool { return strings.HasPrefix(call, begin) }) {
		r.mu.Unlock()
		return
	}
	r.act = nil
	r.mu.Unlock()
	act()
}

func detectsExternalWriteUp[T TB](t *trial[T]) { t.detectsExternalWrite(2, 3, 4) }

func detectsExternalWriteDown[T TB](t *trial[T]) { t.detectsExternalWrite(3, 4, 1) }

// detectsExternalWrite lets an external writer set a different count after the read at the start
// of a write. A platform that compares versions rejects the write. On other platforms both writes
// can succeed. A reading must then contain the actual count, and writes based on an earlier
// reading must fail.
func (t *trial[T]) detectsExternalWrite(from, rival, to int32) {
	f := t.open()
	before := f.settle(t.Refs[0], from)
	var acted atomic.Bool
	t.Rival(t.T, t.Refs[0], func() {
		acted.Store(true)
		t.SetCount(t.T, t.Refs[0], rival)
	})
	err := f.SetReplicas(t.Context(), t.Refs[0], to, before.Version, "contract suite")
	t.poll("write that overlaps the external write", func() (string, bool) {
		return fmt.Sprintf("SetReplicas() = %v", err), acted.Load()
	})
	switch {
	case t.Compares && !errors.Is(err, targets.ErrConflict):
		t.Errorf("SetReplicas() after an external change = %v, want ErrConflict", err)
	case t.Compares:
		f.settle(t.Refs[0], rival)
	case err != nil && !errors.Is(err, targets.ErrConflict):
		t.Errorf("SetReplicas() after an external change = %v, want nil or ErrConflict", err)
	}
	after := f.settle(t.Refs[0], f.read(t.Refs[0]).SpecReplicas)
	if after.Version == before.Version {
		t.Errorf("version = %q before and after an external change", before.Version)
	}
	f.rejected(t.Refs[0], from+3, before.Version, targets.ErrConflict)
}
