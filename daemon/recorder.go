package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// recorder writes to the store, everything that has come up since the last
// commit in one commit. What could not be written is tried again with the next.
type recorder struct {
	store   state.Store
	clock   *clock.Clock
	log     *zap.Logger
	observe func(d time.Duration, records int, err error)
	// dropped counts entries that waited in vain since the last commit that was written.
	dropped int

	mu      sync.Mutex
	changes state.Changes
	// next is the commit that the changes will be part of; nil when there are none.
	next *commit
	kick chan struct{}
}

// commit is one transaction of the store.
type commit struct {
	done chan struct{}
	err  error
	// rejected has the records that the store does not accept.
	rejected state.RejectedError
}

// wait returns once the commit has been tried, with the store's error: a RejectedError if
// it does not accept the record of an autoscaler.
func (c *commit) wait(name string) error {
	<-c.done
	if err := c.rejected[name]; err != nil {
		return state.RejectedError{name: err}
	}
	return c.err
}

func newRecorder(store state.Store, clock *clock.Clock, log *zap.Logger, observe func(time.Duration, int, error)) *recorder {
	return &recorder{store: store, clock: clock, log: log, observe: observe, kick: make(chan struct{}, 1)}
}

// record adds a record, nil for none, and entries of the history to the next
// commit, which it returns.
func (r *recorder) record(name string, record *state.Record, entries ...state.Entry) *commit {
	return r.add(func(c *state.Changes) {
		if record != nil {
			if c.Records == nil {
				c.Records = map[string]state.Record{}
			}
			c.Records[name] = *record
		}
		c.Entries = append(c.Entries, entries...)
	})
}

// completed has the next commit move the last completed round forward.
func (r *recorder) completed(round time.Time) {
	r.add(func(c *state.Changes) { c.LastRound = round })
}

// remove has the next commit delete an autoscaler's record.
func (r *recorder) remove(name string) {
	r.add(func(c *state.Changes) {
		delete(c.Records, name)
		c.Deleted = append(c.Deleted, name)
	})
}

// pause has the next commit keep pauses, each in the place of that of the same scope; nil
// ones end it.
func (r *recorder) pause(pauses map[policy.Scope]*policy.Pause) *commit {
	return r.add(func(c *state.Changes) {
		if c.Pauses == nil {
			c.Pauses = map[policy.Scope]*policy.Pause{}
		}
		maps.Copy(c.Pauses, pauses)
	})
}

// removed has the next commit keep what a fleet's breaker counts.
func (r *recorder) removed(fleet string, removals state.Removals) {
	r.add(func(c *state.Changes) {
		if c.Removals == nil {
			c.Removals = map[string]state.Removals{}
		}
		c.Removals[fleet] = removals
	})
}

func (r *recorder) add(change func(*state.Changes)) *commit {
	r.mu.Lock()
	change(&r.changes)
	if r.next == nil {
		r.next = &commit{done: make(chan struct{})}
	}
	next := r.next
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default: // a commit is due already
	}
	return next
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
	changes, now := r.changes, r.next
	r.changes, r.next = state.Changes{}, nil
	r.mu.Unlock()
	if now == nil {
		return
	}
	changes.Clock = r.clock.State()
	started := time.Now()
	records := len(changes.Records)
	now.rejected = state.RejectedError{}
	changes, now.err = r.write(changes, now.rejected)
	for name, err := range now.rejected {
		r.log.Error("record rejected by the state store", zap.String("autoscaler", name), zap.NamedError("err", err))
	}
	r.observe(time.Since(started), records, now.err)
	if now.err != nil {
		r.keep(changes)
	} else if r.dropped > 0 {
		r.log.Warn("the history lacks entries that waited for too long to be written", zap.Int("entries", r.dropped))
		r.dropped = 0
	}
	close(now.done)
}

// writtenAtOnce is how many records, and entries of the history, are written in one
// transaction: a first round has one of each for every autoscaler, and a store holds
// several times what it writes.
const writtenAtOnce = 2000

// write writes changes, large ones in parts, and returns what is left after an error. As
// in one transaction no record is there whose entry of the history is not. What the last
// completed round was comes with the last part, since it speaks of all records. Records
// that the store does not accept are added to rejected, and not written again: they affect
// only their own autoscalers.
func (r *recorder) write(left state.Changes, rejected state.RejectedError) (state.Changes, error) {
	var names []string
	if len(left.Records) > writtenAtOnce {
		names = slices.Sorted(maps.Keys(left.Records)) // those of neighbors are beside each other in the store
	}
	for {
		part, last := left, false
		switch {
		case len(left.Entries) > writtenAtOnce:
			part.Entries, part.Records, part.LastRound = left.Entries[:writtenAtOnce], nil, time.Time{}
		case len(left.Records) > writtenAtOnce:
			part.Records, part.LastRound = make(map[string]state.Record, writtenAtOnce), time.Time{}
			for _, name := range names[:writtenAtOnce] {
				part.Records[name] = left.Records[name]
			}
			names = names[writtenAtOnce:]
		default:
			last = true
		}
		err := trouble.Guard(func() error { return r.store.Commit(context.Background(), part) })
		if some, is := errors.AsType[state.RejectedError](err); is {
			maps.Copy(rejected, some)
		} else if err != nil {
			return left, err
		}
		if last {
			return state.Changes{}, nil
		}
		for name := range part.Records {
			delete(left.Records, name)
		}
		clear(part.Entries) // which hold much
		left.Entries = left.Entries[len(part.Entries):]
		left.Deleted, left.Pauses, left.Removals = nil, nil, nil
	}
}

// keptEntries bounds the history that waits for a store that cannot be written.
const keptEntries = 1000

// keep puts back what could not be written, under what has come up since.
func (r *recorder) keep(old state.Changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	both := state.Changes{
		Records: old.Records, LastRound: old.LastRound,
		Pauses: merged(old.Pauses, r.changes.Pauses), Removals: merged(old.Removals, r.changes.Removals),
	}
	if both.Records == nil {
		both.Records = map[string]state.Record{}
	}
	for _, name := range r.changes.Deleted {
		delete(both.Records, name)
	}
	maps.Copy(both.Records, r.changes.Records)
	for _, name := range append(old.Deleted, r.changes.Deleted...) {
		if _, back := both.Records[name]; !back {
			both.Deleted = append(both.Deleted, name)
		}
	}
	if !r.changes.LastRound.IsZero() {
		both.LastRound = r.changes.LastRound
	}
	both.Entries = append(old.Entries, r.changes.Entries...)
	if over := len(both.Entries) - keptEntries; over > 0 {
		both.Entries = both.Entries[over:]
		r.dropped += over
	}
	r.changes = both
	if r.next == nil { // nobody asks for a commit, and the last one takes it along
		r.next = &commit{done: make(chan struct{})}
	}
}

// merged returns a map with what is newer in the place of what is older.
func merged[K comparable, V any](older, newer map[K]V) map[K]V {
	if older == nil {
		return newer
	}
	maps.Copy(older, newer)
	return older
}
