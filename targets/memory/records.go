package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

const (
	// savedAtOnce is how many shards are saved at once: a store writes what comes
	// together in one transaction.
	savedAtOnce = 256
	// forgottenAfter is how long a vanished instance is remembered.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// Record is what is remembered of one instance; it is stored as JSON.
type Record[R any] interface {
	// Equal reports whether another record need not be stored in place of this one.
	Equal(other R) bool
}

// Records are what is remembered of the instances of a fleet, by their ids. They
// are safe for concurrent use.
type Records[R Record[R]] struct {
	store  targets.Store
	prefix string
	shard  func(id string) string
	// saving is held while records are stored, so that none is by an older one.
	saving chan struct{}
	// part returns where what is known of a target is stored in a [targets.PartedStore].
	part func(target string) string

	mu     sync.Mutex
	loaded bool
	known  map[string]entry[R]
	dirty  map[string]bool
	swept  time.Time
	// epoch is when they were used first.
	epoch time.Time
	// saveErr is why the last save failed; nil when it did not.
	saveErr error
}

// entry is a record, how long after the epoch of the records its instance was there
// last, by the steady clock, and where it is stored.
type entry[R any] struct {
	record R
	seen   time.Duration
	at     string
}

// New returns the records that a store keeps below a prefix of its keys; a store of nil
// keeps none across restarts. Shard returns where a record is stored, by its id, so that
// a change of one rewrites a small part of all. It must return the same in every version
// of hpad.
func New[R Record[R]](store targets.Store, prefix string, shard func(id string) string) *Records[R] {
	r := &Records[R]{store: store, prefix: prefix, shard: shard, saving: make(chan struct{}, 1), known: map[string]entry[R]{}, dirty: map[string]bool{}}
	if parted, is := store.(targets.PartedStore); is {
		r.part = parted.Part
	}
	return r
}

// Load reads what was stored, once; it is called before anything else and tried
// again when it failed, with an ErrTransient.
func (r *Records[R]) Load(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded || r.store == nil {
		return nil
	}
	shards, err := r.store.List(ctx, r.prefix)
	if err != nil {
		return fmt.Errorf("%w: load what is known of instances: %w", targets.ErrTransient, err)
	}
	for _, key := range slices.Sorted(maps.Keys(shards)) {
		text := shards[key]
		var stored map[string]R
		if err := json.Unmarshal(text, &stored); err != nil {
			return fmt.Errorf("%w: load what is known of instances: entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		for id, record := range stored {
			r.keepLocked(id, record, strings.TrimPrefix(key, r.prefix), now)
		}
	}
	r.loaded = true
	r.swept = now
	return nil
}

// keepLocked keeps a record that was stored in a shard. Of several of one instance it is
// the one with its part, which was stored later than the one without.
func (r *Records[R]) keepLocked(id string, record R, here string, now time.Time) {
	known, again := r.known[id]
	whole := r.shard(id)
	if r.part == nil {
		if !again || here == whole {
			r.known[id] = entry[R]{record, r.sinceEpoch(now), whole}
		}
		if here != whole {
			r.dirty[here], r.dirty[whole] = true, true
		}
		return
	}
	if again {
		r.dirty[here], r.dirty[known.at] = true, true // the one that is not kept is removed
	}
	if !again || here != whole {
		r.known[id] = entry[R]{record, r.sinceEpoch(now), here} // SeeOf knows where it belongs
	}
}

// sinceEpoch returns how long ago the records were used first.
func (r *Records[R]) sinceEpoch(now time.Time) time.Duration {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	return now.Sub(r.epoch)
}

// Recall returns what is known of an instance; false when nothing is.
func (r *Records[R]) Recall(id string) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[id]
	return known.record, ok
}

// See remembers an instance that is there now, and returns its record. Next makes it of
// the one before, which is zero where none is known. It must not use the Records.
func (r *Records[R]) See(id string, now time.Time, next func(before R, known bool) R) R {
	return r.SeeOf("", id, now, next)
}

// SeeOf is See of an instance of a target, with which its record goes where the fleet is
// divided.
func (r *Records[R]) SeeOf(target, id string, now time.Time, next func(before R, known bool) R) R {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.known[id]
	record, at := next(before.record, ok), r.shard(id)
	if r.part != nil && target != "" {
		at += r.part(target)
	}
	r.known[id] = entry[R]{record, r.sinceEpoch(now), at}
	if !ok || !record.Equal(before.record) || before.at != at {
		r.dirty[at] = true
	}
	if ok && before.at != at {
		r.dirty[before.at] = true
	}
	return record
}

// Change changes what is known of an instance; nothing where nothing is. It must
// not use the Records.
func (r *Records[R]) Change(id string, change func(record *R)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[id]; ok {
		change(&known.record)
		r.known[id] = known
		r.dirty[known.at] = true
	}
}

// Keep notes that an instance is still there, as it was; nothing where nothing is known
// of it.
func (r *Records[R]) Keep(id string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[id]; ok {
		known.seen = r.sinceEpoch(now)
		r.known[id] = known
	}
}

// Forget removes what is known of an instance: one that starts its life anew.
func (r *Records[R]) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(id)
}

func (r *Records[R]) forgetLocked(id string) {
	if known, ok := r.known[id]; ok {
		delete(r.known, id)
		r.dirty[known.at] = true
	}
}

// Save stores what changed since the last save, and forgets instances that vanished a
// day ago. What cannot be stored stays known, and is stored as soon as it can be;
// Failure returns why.
func (r *Records[R]) Save(ctx context.Context, now time.Time) {
	select {
	case r.saving <- struct{}{}:
		defer func() { <-r.saving }()
	case <-ctx.Done():
		return // the next save stores it
	}
	changed := r.changed(now)
	if len(changed) == 0 {
		return
	}
	var group errgroup.Group
	group.SetLimit(savedAtOnce)
	for _, shard := range slices.Sorted(maps.Keys(changed)) {
		group.Go(func() error {
			err := r.saveShard(ctx, shard, changed[shard])
			if err != nil {
				r.mu.Lock()
				r.dirty[shard] = true
				r.mu.Unlock()
			}
			return err
		})
	}
	err := group.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saveErr = err
}

// changed returns the records of shards that are to be stored, and takes them for
// stored.
func (r *Records[R]) changed(now time.Time) map[string]map[string]R {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(now)
	defer clear(r.dirty)
	if r.store == nil || len(r.dirty) == 0 {
		return nil
	}
	changed := make(map[string]map[string]R, len(r.dirty))
	for shard := range r.dirty {
		changed[shard] = map[string]R{}
	}
	for id, known := range r.known {
		if records, ok := changed[known.at]; ok {
			records[id] = known.record
		}
	}
	return changed
}

func (r *Records[R]) saveShard(ctx context.Context, shard string, records map[string]R) error {
	if len(records) == 0 {
		return r.store.Delete(ctx, r.prefix+shard)
	}
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return r.store.Save(ctx, r.prefix+shard, text)
}

// sweepLocked forgets instances that vanished long ago.
func (r *Records[R]) sweepLocked(now time.Time) {
	if now.Sub(r.swept) < sweepInterval {
		return
	}
	r.swept = now
	for id, known := range r.known {
		if r.sinceEpoch(now)-known.seen > forgottenAfter {
			r.forgetLocked(id)
		}
	}
}

// Failure returns why the last save failed; nil when it did not.
func (r *Records[R]) Failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saveErr
}
