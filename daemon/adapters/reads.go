package adapters

import (
	"slices"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Reads are the reads of a fleet's targets in progress. Several waiters may share one. It is safe
// for concurrent use.
type Reads struct {
	Gate
	mu      sync.Mutex
	running []*Read
}

// Read is a read of some targets of a fleet.
type Read struct {
	// Began is the start on the monotonic clock: the result is not older.
	Began time.Time
	// Done is closed after Readings and Err are set.
	Done     chan struct{}
	Readings map[targets.Ref]targets.Reading
	Err      error

	refs []targets.Ref
	// set has the refs for lookups of other plans' targets.
	set func() map[targets.Ref]struct{}
}

// Begin adds a read of the targets, and the caller calls End. If failed is not nil and another read
// of them began later, Begin returns that one and false. The caller must not change refs.
func (r *Reads) Begin(refs []targets.Ref, failed *Read) (read *Read, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed != nil {
		if other := r.covering(refs); other != nil && other.Began.After(failed.Began) {
			return other, false
		}
	}
	read = &Read{Began: time.Now(), Done: make(chan struct{}), refs: refs}
	read.set = sync.OnceValue(func() map[targets.Ref]struct{} {
		set := make(map[targets.Ref]struct{}, len(refs))
		for _, ref := range refs {
			set[ref] = struct{}{}
		}
		return set
	})
	r.running = append(r.running, read)
	return read, true
}

// End sets the result of a read.
func (r *Reads) End(read *Read, readings map[targets.Ref]targets.Reading, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(other *Read) bool { return other == read })
	read.Readings, read.Err = readings, err
	close(read.Done)
}

// Covering returns the newest read in progress that has all of the targets; may be nil.
func (r *Reads) Covering(refs []targets.Ref) *Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.covering(refs)
}

func (r *Reads) covering(refs []targets.Ref) *Read {
	for _, read := range slices.Backward(r.running) {
		if read.covers(refs) {
			return read
		}
	}
	return nil
}

func (r *Read) covers(refs []targets.Ref) bool {
	if len(refs) > len(r.refs) {
		return false
	}
	if len(refs) == 0 || &refs[0] == &r.refs[0] && len(refs) == len(r.refs) {
		return true
	}
	set := r.set()
	for _, ref := range refs {
		if _, ok := set[ref]; !ok {
			return false
		}
	}
	return true
}
