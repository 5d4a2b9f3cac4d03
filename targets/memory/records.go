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
	known  map[string]entry[R]
	shards map[string]*shard
	// dirty lists the shards that have changed since they were last written.
	dirty []*shard
	swept time.Time
	// epoch is the time of the first call that records an instance.
	epoch time.Time
	// saveErr is the error of the last write.
	saveErr error
}

// entry is a record with its shard. seen is the time since the epoch at which its instance last
// existed.
type entry[R any] struct {
	record R
	seen   time.Duration
	at     *shard
}

// shard is the set of records that are stored under one key. All its records point to it.
type shard struct {
	name  string
	dirty bool
}

// New returns the records that are stored under a key prefix. If the store is nil, they do not
// survive a restart. belongs returns the name of a record's shard from its ID, so that a change
// rewrites only a small part of the records. Every version of hpad must use the same names.
func New[R Record[R]](store targets.Store, prefix string, belongs func(id string) string) *Records[R] {
	return &Records[R]{store: store, prefix: prefix, belongs: belongs, saving: make(chan struct{}, 1), known: map[string]entry[R]{}, shards: map[string]*shard{}}
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

// sinceEpoch returns the time since the epoch. The first call sets the epoch.
func (r *Records[R]) sinceEpoch(now time.Time) time.Duration {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	return now.Sub(r.epoch)
}

// Recall returns the record of an instance, or false if it has no record.
func (r *Records[R]) Recall(id string) (R, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[id]
	return known.record, ok
}

// See sets and returns the record of an existing instance. next computes it from the previous
// record, or from the zero R if there is none. It must not use the Records.
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

// Change changes the record of an instance if it exists. change must not use the Records.
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

// changed returns the records of the dirty shards and marks the shards as clean.
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
