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
	// maxSaves limits the concurrent writes of shards. They are concurrent because a store
	// combines concurrent writes in one transaction.
	maxSaves = 256
	// forgottenAfter is how long the record of an instance is kept after the instance has
	// disappeared.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// Record is the record of one instance, stored as JSON.
type Record[R any] interface {
	// Equal reports whether storing other instead of this record would make no difference.
	Equal(other R) bool
}

// Records stores the records of a fleet's instances, by ID. It is safe for concurrent use.
type Records[R Record[R]] struct {
	store  targets.Store
	prefix string
	// belongs returns the name of the shard that contains a record.
	belongs func(id string) string
	// saving is locked during a write, so that an older record never overwrites a newer record.
	saving chan struct{}

	mu     sync.Mutex
	loaded bool
	shards map[string]*shard[R]
	swept  time.Time
	// saveErr is the error of the last write.
	saveErr error
}

// shard contains the records that are stored under one key. It is dirty if they have changed
// since they were last written.
type shard[R any] struct {
	records map[string]entry[R]
	dirty   bool
}

// entry is a record. seen is the time at which its instance last existed.
type entry[R any] struct {
	record R
	seen   time.Time
}

// New returns the records that are stored under a key prefix. If the store is nil, they do not
// survive a restart. belongs returns the name of a record's shard from its ID, so that a change
// rewrites only a small part of the records. Every version of hpad must use the same names.
func New[R Record[R]](store targets.Store, prefix string, belongs func(id string) string) *Records[R] {
	return &Records[R]{store: store, prefix: prefix, belongs: belongs, saving: make(chan struct{}, 1), shards: map[string]*shard[R]{}}
}

// Load reads the store once, before any other call. If it returns an error, which is an
// ErrTransient, it can be called again.
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
			r.shardLocked(id).records[id] = entry[R]{record, now}
		}
	}
	r.loaded = true
	r.swept = now
	return nil
}

// shardLocked returns the shard of an instance.
func (r *Records[R]) shardLocked(id string) *shard[R] {
	name := r.belongs(id)
	at, ok := r.shards[name]
	if !ok {
		at = &shard[R]{records: map[string]entry[R]{}}
		r.shards[strings.Clone(name)] = at // name may be part of a long string
	}
	return at
}

// Recall returns the record of an instance, or false if it has no record.
func (r *Records[R]) Recall(id string) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.shardLocked(id).records[id]
	return found.record, ok
}

// See sets and returns the record of an existing instance. next computes it from the previous
// record, or from the zero R if there is none. It must not use the Records.
func (r *Records[R]) See(id string, now time.Time, next func(before R, known bool) R) R {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.shardLocked(id)
	before, ok := at.records[id]
	record := next(before.record, ok)
	at.records[id] = entry[R]{record, now}
	at.dirty = at.dirty || !ok || !record.Equal(before.record)
	return record
}

// Change changes the record of an instance if it exists. change must not use the Records.
func (r *Records[R]) Change(id string, change func(record *R)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.shardLocked(id)
	if found, ok := at.records[id]; ok {
		change(&found.record)
		at.records[id], at.dirty = found, true
	}
}

// Save writes the changed records, and deletes the records of instances that disappeared more
// than forgottenAfter ago. Failure returns the error of a failed write, and the next call
// retries it.
func (r *Records[R]) Save(ctx context.Context, now time.Time) {
	select {
	case r.saving <- struct{}{}:
		defer func() { <-r.saving }()
	case <-ctx.Done():
		return // the next call retries
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
				r.shards[name].dirty = true
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

// changed returns the records of the dirty shards and marks the shards as clean.
func (r *Records[R]) changed(now time.Time) map[string]map[string]R {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweepLocked(now)
	changed := map[string]map[string]R{}
	for name, s := range r.shards {
		if s.dirty && r.store != nil {
			changed[name] = make(map[string]R, len(s.records))
			for id, found := range s.records {
				changed[name][id] = found.record
			}
		}
		s.dirty = false
	}
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
	for _, s := range r.shards {
		known := len(s.records)
		maps.DeleteFunc(s.records, func(_ string, found entry[R]) bool { return now.Sub(found.seen) > forgottenAfter })
		s.dirty = s.dirty || len(s.records) < known
	}
}

// Failure returns the error of the last write.
func (r *Records[R]) Failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.saveErr
}
