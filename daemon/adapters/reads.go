package adapters

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// reads tracks the active reads of a fleet's targets. Several callers can wait for the same read.
// It is safe for concurrent use.
type reads struct {
	Gate
	mu      sync.Mutex
	running []*Read
}

// Read is one read of several targets of a fleet.
type Read struct {
	// Began is the start time on the monotonic clock. The result is at least as recent.
	Began time.Time
	// Done is closed after Readings and Err are set.
	Done     chan struct{}
	Readings map[targets.Ref]targets.Reading
	Err      error

	refs []targets.Ref
	// set returns refs as a set. Begin uses the set to check whether the read includes the targets
	// of another caller.
	set func() map[targets.Ref]struct{}
}

// Begin returns a read of the targets, and true if the caller must perform the read and call End.
// It returns false if an active read includes the targets and did not begin before since. The
// caller must not change refs.
func (r *reads) Begin(refs []targets.Ref, since time.Time) (read *Read, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, active := range slices.Backward(r.running) {
		if !active.Began.Before(since) && active.covers(refs) {
			return active, false
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

// End sets the result of a read and removes it from the active reads.
func (r *reads) End(read *Read, readings map[targets.Ref]targets.Reading, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = slices.DeleteFunc(r.running, func(other *Read) bool { return other == read })
	read.Readings, read.Err = readings, err
	close(read.Done)
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

// CallGrace is the maximum time that hpad waits for a call to return after its context has ended.
const CallGrace = 50 * time.Millisecond

// Gate limits the concurrent calls into an adapter, including calls that an earlier round
// abandoned.
type Gate struct{ places chan struct{} }

func newGate(limit int) Gate { return Gate{places: make(chan struct{}, limit)} }

// Run calls do for each i below n, within the limit. If ctx ends, Run calls expire for every i,
// including completed calls. It does not wait for a call that ignores its context; such a call
// occupies its slot until it returns. Run can call both do and expire for the same i, in either
// order; the caller must ignore the second call.
func (g Gate) Run(ctx context.Context, n int, do func(ctx context.Context, i int), expire func(i int, err error)) {
	var next atomic.Int32
	var running guard.Tasks
	finished := make(chan struct{})
	for range min(cap(g.places), n) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && g.enter(ctx); i = int(next.Add(1)) - 1 {
				guard.Run(func() { do(ctx, i) })
				<-g.places
			}
		})
	}
	guard.Go(func() {
		running.Wait()
		close(finished)
	})
	select {
	case <-finished:
	case <-ctx.Done():
		grace := time.NewTimer(CallGrace)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
		}
	}
	if ctx.Err() != nil {
		err := context.Cause(ctx)
		if hung := len(g.places); hung == cap(g.places) {
			err = fmt.Errorf("%d earlier calls have not returned yet: %w", hung, err)
		}
		for i := range n {
			expire(i, err)
		}
	}
}

// enter acquires a slot. It returns false if ctx ends first.
func (g Gate) enter(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case g.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
