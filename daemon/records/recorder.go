package records

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// Recorder collects changes and writes all changes since the last commit to the store in one
// commit. If a commit fails, the next commit includes its changes. It is safe for concurrent use.
type Recorder struct {
	store   state.Store
	clock   *clock.Clock
	log     *zap.Logger
	observe func(d time.Duration, records int, err error)
	// dropped counts history entries that were dropped since the last successful commit.
	dropped int

	mu      sync.Mutex
	stopped bool
	changes state.Changes
	// next is the commit that will contain changes; nil if there are no changes.
	next *Commit
	due  chan struct{}
}

// ErrStopped is the error of a commit after the recorder has stopped.
var ErrStopped = errors.New("hpad has stopped writing the state")

// Commit is one transaction of the store.
type Commit struct {
	done chan struct{}
	err  error
	// rejected contains the records that the store does not accept.
	rejected state.RejectedError
	// failures lists functions to call if the record of an autoscaler was not written.
	failures []failure
}

type failure struct {
	name string
	call func(error)
}

// Wait waits for the commit and returns its error. The error is a RejectedError if the store does
// not accept the record of the named autoscaler. name can be empty.
func (c *Commit) Wait(ctx context.Context, name string) error {
	select {
	case <-c.done:
		return c.errorOf(name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Commit) errorOf(name string) error {
	if err := c.rejected[name]; err != nil {
		return state.RejectedError{name: err}
	}
	return c.err
}

// NewRecorder returns a Recorder that calls observe after each commit. Call Run to start it.
func NewRecorder(store state.Store, clock *clock.Clock, log *zap.Logger, observe func(time.Duration, int, error)) *Recorder {
	return &Recorder{store: store, clock: clock, log: log, observe: observe, due: make(chan struct{}, 1)}
}

// Record adds a record, which may be nil, and history entries to the next commit.
func (r *Recorder) Record(name string, record *state.Record, entries ...state.Entry) *Commit {
	return r.RecordOr(nil, name, record, entries...)
}

// RecordOr is like Record. If failed is not nil, RecordOr calls it when the record could not be
// written.
func (r *Recorder) RecordOr(failed func(error), name string, record *state.Record, entries ...state.Entry) *Commit {
	return r.add(func(c *state.Changes) {
		if failed != nil {
			r.next.failures = append(r.next.failures, failure{name, failed})
		}
		if record != nil {
			if c.Records == nil {
				c.Records = map[string]state.Record{}
			}
			c.Records[name] = *record
		}
		c.Entries = append(c.Entries, entries...)
	})
}

// Completed sets the last completed round.
func (r *Recorder) Completed(round time.Time) {
	r.add(func(c *state.Changes) { c.LastRound = round })
}

// Remove deletes the record of an autoscaler.
func (r *Recorder) Remove(name string) {
	r.add(func(c *state.Changes) {
		delete(c.Records, name)
		c.Deleted = append(c.Deleted, name)
	})
}

// pause sets pauses by scope; nil ends a pause.
func (r *Recorder) pause(pauses map[policy.Scope]*policy.Pause) *Commit {
	return r.add(func(c *state.Changes) {
		if c.Pauses == nil {
			c.Pauses = map[policy.Scope]*policy.Pause{}
		}
		maps.Copy(c.Pauses, pauses)
	})
}

// removed records the removals that the breaker of a fleet counts.
func (r *Recorder) removed(fleet string, removals state.Removals) {
	r.add(func(c *state.Changes) {
		if c.Removals == nil {
			c.Removals = map[string]state.Removals{}
		}
		c.Removals[fleet] = removals
	})
}

func (r *Recorder) add(change func(*state.Changes)) *Commit {
	r.mu.Lock()
	if r.next == nil {
		r.next = &Commit{done: make(chan struct{})}
	}
	change(&r.changes)
	next := r.next
	if r.stopped {
		next.err = ErrStopped
		close(next.done)
		r.next = nil
	}
	r.mu.Unlock()
	select {
	case r.due <- struct{}{}:
	default:
	}
	return next
}

// Run commits until ctx ends, and then once more.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-r.due:
			r.commit()
		case <-ctx.Done():
			r.commit()
			r.stop()
			return
		}
	}
}

// stop ends the last commit, and all later ones, with ErrStopped.
func (r *Recorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if r.next != nil {
		r.next.err = ErrStopped
		close(r.next.done)
		r.next = nil
	}
}

func (r *Recorder) commit() {
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
	failed := now.err
	if _, is := errors.AsType[*state.HistoryError](failed); is {
		now.err = nil // the records are written, and passes do not need the history
	}
	if failed != nil {
		r.keep(changes)
	} else if r.dropped > 0 {
		r.log.Warn("history entries dropped", zap.Int("entries", r.dropped))
		r.dropped = 0
	}
	for _, failed := range now.failures {
		if err := now.errorOf(failed.name); err != nil {
			failed.call(err)
		}
	}
	close(now.done)
}

// maxBatch is the maximum number of records, and of history entries, in one transaction. It limits
// memory use, because a transaction needs several times the memory of its data.
const maxBatch = 2000

// write writes changes, in several transactions if there are many. After an error it returns the
// changes that were not written; these are only history entries if the error is a HistoryError.
// History entries are written before the records of the same passes, and the last completed round
// is written last. Records that the store does not accept are added to rejected and dropped.
func (r *Recorder) write(left state.Changes, rejected state.RejectedError) (state.Changes, error) {
	var names []string
	if len(left.Records) > maxBatch {
		names = slices.Sorted(maps.Keys(left.Records)) // neighbors share pages of the store
	}
	var unrecorded []state.Entry
	var historyErr error
	for {
		part, last := left, false
		switch {
		case len(left.Entries) > maxBatch:
			part.Entries, part.Records, part.LastRound = left.Entries[:maxBatch], nil, time.Time{}
		case len(left.Records) > maxBatch:
			part.Records, part.LastRound = make(map[string]state.Record, maxBatch), time.Time{}
			for _, name := range names[:maxBatch] {
				part.Records[name] = left.Records[name]
			}
			names = names[maxBatch:]
		default:
			last = true
		}
		err := guard.Call(func() error { return r.store.Commit(context.Background(), part) })
		some, isRejected := errors.AsType[state.RejectedError](err)
		maps.Copy(rejected, some)
		if _, is := errors.AsType[*state.HistoryError](err); is {
			unrecorded, historyErr = append(unrecorded, part.Entries...), err
		} else if err != nil && !isRejected {
			left.Entries = append(unrecorded, left.Entries...)
			return left, err
		}
		if last {
			return state.Changes{Entries: unrecorded}, historyErr
		}
		for name := range part.Records {
			delete(left.Records, name)
		}
		if historyErr == nil {
			clear(part.Entries) // releases memory
		}
		left.Entries = left.Entries[len(part.Entries):]
		left.Deleted, left.Pauses, left.Removals = nil, nil, nil
	}
}

// maxWaiting is the maximum number of history entries that wait while the store cannot be written.
const maxWaiting = 1000

// keep adds changes that could not be written to the next commit. Newer changes take precedence.
func (r *Recorder) keep(old state.Changes) {
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
	if over := len(both.Entries) - maxWaiting; over > 0 {
		both.Entries = both.Entries[over:]
		r.dropped += over
	}
	r.changes = both
	if r.next == nil { // the next commit includes the changes, at the latest when the daemon stops
		r.next = &Commit{done: make(chan struct{})}
	}
}

// merged returns a map with the values of both maps. Newer values take precedence.
func merged[K comparable, V any](older, newer map[K]V) map[K]V {
	if older == nil {
		return newer
	}
	maps.Copy(older, newer)
	return older
}
