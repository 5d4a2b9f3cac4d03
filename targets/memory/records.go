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
	// maxSaves is the number of shards that are written at the same time: a store combines
	// concurrent writes in one transaction.
	maxSaves = 256
	// forgottenAfter is the time after which the record of an instance that no longer exists is
	// deleted.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// Record is the record of one instance, stored as JSON.
type Record[R any] interface {
	// Equal reports whether another record need not be stored instead of this one.
	Equal(other R) bool
}

// Records are the records of a fleet's instances, by ID. They are safe for concurrent use.
type Records[R Record[R]] struct {
	store  targets.Store
	prefix string
	// belongs returns the name of a record's shard.
	belongs func(id string) string
	// saving is held during a write, so that an older record never overwrites a newer record.
	saving chan struct{}

	mu     sync.Mutex
	loaded bool
	known  map[string]entry[R]
	shards map[string]*shard
	// dirty are the shards that have changed since they were written.
	dirty []*shard
	swept time.Time
	// epoch is the time of the first use.
	epoch time.Time
	// saveErr is the error of the last write.
	saveErr error
}

// entry is a record, the last time of its instance since the epoch, and its shard.
type entry[R any] struct {
	record R
	seen   time.Duration
	at     *shard
}

// shard contains the records under one key. All records share one value.
type shard struct {
	name  string
	dirty bool
}

// New returns the records under a prefix of a store's keys. With a nil store they do not survive
// a restart. belongs returns the name of a record's shard by its ID, so that a change rewrites
// only a small part; it must return the same in every version of hpad.
func New[R Record[R]](store targets.Store, prefix string, belongs func(id string) string) *Records[R] {
	return &Records[R]{store: store, prefix: prefix, belongs: belongs, saving: make(chan struct{}, 1), known: map[string]entry[R]{}, shards: map[string]*shard{}}
}

// Load reads the store once, before any other call. After an error, an ErrTransient, it can be
// called again.
func (r *Records[R]) Load(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded || r.store == nil {
		return nil
	}
	shards, err := r.store.List(ctx, r.prefix)
	if err != nil {
		return fmt.Errorf("%w: load the records of instances: %w", targets.ErrTransient, err)
	}
	for key, text := range shards {
		var stored map[string]R
		if err := json.Unmarshal(text, &stored); err != nil {
			return fmt.Errorf("%w: load the records of instances: entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		for id, record := range stored {
			r.known[id] = entry[R]{record, r.sinceEpoch(now), r.shardLocked(r.belongs(id))}
		}
	}
	r.loaded = true
	r.swept = now
	return nil
}

func (r *Records[R]) shardLocked(name string) *shard {
	at, ok := r.shards[name]
	if !ok {
		at = &shard{name: strings.Clone(name)} // name may be part of a long string
		r.shards[at.name] = at
	}
	return at
}

func (r *Records[R]) touchLocked(s *shard) {
	if !s.dirty && r.store != nil {
		s.dirty = true
		r.dirty = append(r.dirty, s)
	}
}

// sinceEpoch sets the epoch at the first call.
func (r *Records[R]) sinceEpoch(now time.Time) time.Duration {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	return now.Sub(r.epoch)
}

// Recall returns the record of an instance; false if it has no record.
func (r *Records[R]) Recall(id string) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[id]
	return known.record, ok
}

// See sets and returns the record of an existing instance. next returns it from the previous
// record, the zero R if it has no record. It must not use the Records.
func (r *Records[R]) See(id string, now time.Time, next func(before R, known bool) R) R {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.known[id]
	record, at := next(before.record, ok), r.shardLocked(r.belongs(id))
	r.known[id] = entry[R]{record, r.sinceEpoch(now), at}
	if !ok || !record.Equal(before.record) {
		r.touchLocked(at)
	}
	return record
}

// Change changes the record of an instance, if there is one. change must not use the Records.
func (r *Records[R]) Change(id string, change func(record *R)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[id]; ok {
		change(&known.record)
		r.known[id] = known
		r.touchLocked(known.at)
	}
}

// Forget deletes the record of an instance.
func (r *Records[R]) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(id)
}

func (r *Records[R]) forgetLocked(id string) {
	if known, ok := r.known[id]; ok {
		delete(r.known, id)
		r.touchLocked(known.at)
	}
}

// Save writes the changed records, and deletes records of instances that have not existed for
// forgottenAfter. A later call repeats a failed write; Failure returns its error.
func (r *Records[R]) Save(ctx context.Context, now time.Time) {
	select {
	case r.saving <- struct{}{}:
		defer func() { <-r.saving }()
	case <-ctx.Done():
		return // the next call repeats it
	}
	changed := r.changed(now)
	if len(changed) == 0 {
		return
	}
	var group errgroup.Group
	group.SetLimit(maxSaves)
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		group.Go(func() error {
			err := r.saveShard(ctx, name, changed[name])
			if err != nil {
				r.mu.Lock()
				r.touchLocked(r.shardLocked(name))
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

// changed returns the records of the dirty shards, which are no longer dirty.
func (r *Records[R]) changed(now time.Time) map[string]map[string]R {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(now)
	if len(r.dirty) == 0 {
		return nil
	}
	changed := make(map[string]map[string]R, len(r.dirty))
	for _, s := range r.dirty {
		changed[s.name] = map[string]R{}
	}
	for id, known := range r.known {
		if known.at.dirty {
			changed[known.at.name][id] = known.record
		}
	}
	for _, s := range r.dirty {
		s.dirty = false
		if len(changed[s.name]) == 0 {
			delete(r.shards, s.name)
		}
	}
	r.dirty = nil
	return changed
}

func (r *Records[R]) saveShard(ctx context.Context, name string, records map[string]R) error {
	if len(records) == 0 {
		return r.store.Delete(ctx, r.prefix+name)
	}
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return r.store.Save(ctx, r.prefix+name, text)
}

// sweepLocked deletes the records of instances that no longer exist.
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

// Failure returns the error of the last write.
func (r *Records[R]) Failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saveErr
}
