package daemon

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/targets/clock"
)

// recorder writes to the store, everything that has come up since the last
// commit in one commit. What could not be written is tried again with the next.
type recorder struct {
	store   state.Store
	clock   *clock.Clock
	observe func(d time.Duration, records int, err error)

	mu      sync.Mutex
	changes state.Changes
	told    []func(error)
	kick    chan struct{}
}

func newRecorder(store state.Store, clock *clock.Clock, observe func(time.Duration, int, error)) *recorder {
	return &recorder{store: store, clock: clock, observe: observe, kick: make(chan struct{}, 1)}
}

// record asks for a record to be written. Told, if not nil, is called once it
// has been, or once that failed; it must not block.
func (r *recorder) record(name string, record *state.Record, entries []state.Entry, told func(error)) {
	r.add(func(c *state.Changes) {
		if record != nil {
			if c.Records == nil {
				c.Records = map[string]state.Record{}
			}
			c.Records[name] = *record
		}
		c.Entries = append(c.Entries, entries...)
	}, told)
}

// completed asks for the last completed round to be moved forward.
func (r *recorder) completed(round time.Time) {
	r.add(func(c *state.Changes) { c.LastRound = round }, nil)
}

// remove asks for an autoscaler's record to be deleted.
func (r *recorder) remove(name string) {
	r.add(func(c *state.Changes) {
		delete(c.Records, name)
		c.Deleted = append(c.Deleted, name)
	}, nil)
}

func (r *recorder) add(change func(*state.Changes), told func(error)) {
	r.mu.Lock()
	change(&r.changes)
	if told != nil {
		r.told = append(r.told, told)
	}
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default: // a commit is due already
	}
}

// run commits until ctx ends, and then once more.
func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case <-r.kick:
			r.commit()
		case <-ctx.Done():
			r.commit()
			return
		}
	}
}

func (r *recorder) commit() {
	r.mu.Lock()
	changes, told := r.changes, r.told
	r.changes, r.told = state.Changes{}, nil
	r.mu.Unlock()
	if len(changes.Records) == 0 && len(changes.Deleted) == 0 && len(changes.Entries) == 0 && changes.LastRound.IsZero() && len(told) == 0 {
		return
	}
	changes.Clock = r.clock.State()
	started := time.Now()
	err := guard(func() error { return r.store.Commit(context.Background(), changes) })
	r.observe(time.Since(started), len(changes.Records), err)
	if err != nil {
		r.keep(changes)
	}
	for _, tell := range told {
		tell(err)
	}
}

// flush returns when everything that had come up has been tried and told.
func (r *recorder) flush() {
	done := make(chan struct{})
	r.add(func(*state.Changes) {}, func(error) { close(done) })
	<-done
}

// keptEntries bounds the history that waits for a store that cannot be written.
const keptEntries = 1000

// keep puts back what could not be written, under what has come up since.
func (r *recorder) keep(old state.Changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	merged := state.Changes{Records: old.Records, LastRound: old.LastRound}
	if merged.Records == nil {
		merged.Records = map[string]state.Record{}
	}
	for _, name := range r.changes.Deleted {
		delete(merged.Records, name)
	}
	maps.Copy(merged.Records, r.changes.Records)
	for _, name := range append(old.Deleted, r.changes.Deleted...) {
		if _, back := merged.Records[name]; !back {
			merged.Deleted = append(merged.Deleted, name)
		}
	}
	if !r.changes.LastRound.IsZero() {
		merged.LastRound = r.changes.LastRound
	}
	merged.Entries = append(old.Entries, r.changes.Entries...)
	merged.Entries = merged.Entries[max(0, len(merged.Entries)-keptEntries):]
	r.changes = merged
}
