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

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

const (
	// maxSaves limits the concurrent writes of shards. They are concurrent because a store
	// combines concurrent writes in one transaction.
	maxSaves = 256
	// storeWait limits the time that Load and Save wait for the store. The calls of the store then
	// continue in the background, and end after storeTimeout.
	storeWait    = time.Second
	storeTimeout = 30 * time.Second
	// forgottenAfter is the time after which the record of a missing instance is deleted.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// Record describes one instance, and is stored as JSON.
type Record[R any] interface {
	// Equal reports whether storing other instead of this record would make no difference.
	Equal(other R) bool
}

// Records stores the records of a fleet's instances, by ID. During an outage of the store, the
// records are in memory only. It is safe for concurrent use.
type Records[R Record[R]] struct {
	store  targets.Store
	prefix string
	// belongs returns the name of the shard that contains a record.
	belongs func(id string) string
	// syncing is full while the store is in use, so that an older record never overwrites a newer
	// record.
	syncing chan struct{}
	// began is the time of New. It has Go's monotonic clock.
	began time.Time
	// work is the context of calls of the store, which Close cancels.
	work context.Context
	end  context.CancelFunc

	mu     sync.Mutex
	loaded bool
	shards map[string]*shard[R]
	swept  time.Time
	// err is the error of the last use of the store.
	err error
}

// shard contains the records that are stored under one key. It is dirty if they have changed
// since they were last written.
type shard[R any] struct {
	records map[string]entry[R]
	dirty   bool
}

// entry is a record. seen is the time when its instance last existed, relative to
// Records.began.
type entry[R any] struct {
	record R
	seen   time.Duration
}

// New returns the records that are stored under a key prefix. If the store is nil, they do not
// survive a restart. belongs maps a record's ID to the name of its shard, so that a change rewrites
// only a small part of the records. Every version of hpad must use the same shard names.
func New[R Record[R]](store targets.Store, prefix string, belongs func(id string) string) *Records[R] {
	r := &Records[R]{store: store, prefix: prefix, belongs: belongs, syncing: make(chan struct{}, 1), loaded: store == nil, began: time.Now(), shards: map[string]*shard[R]{}}
	r.work, r.end = context.WithCancel(context.Background())
	return r
}

// Close ends the use of the store. It waits for a write in progress for up to storeWait.
func (r *Records[R]) Close() {
	cancel := guard.AfterFunc(storeWait, r.end)
	r.syncing <- struct{}{}
	cancel.Stop()
	r.end()
}

// Load reads the stored records unless they have been read. It must be called before each reading.
func (r *Records[R]) Load(now time.Time) {
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if loaded {
		return
	}
	patience := time.NewTimer(storeWait)
	defer patience.Stop()
	select {
	case r.syncing <- struct{}{}:
		r.sync(now)
	case <-patience.C: // a concurrent call is waiting for the store
	}
}

// Save writes the changed records, and deletes the records of instances that disappeared more
// than forgottenAfter ago. After an error, or if the store is still in use, the next call tries
// again.
func (r *Records[R]) Save(now time.Time) {
	select {
	case r.syncing <- struct{}{}:
		r.sync(now)
	default:
	}
}

// sync reads and writes the store in the background. It returns after storeWait at the latest. The
// channel syncing must be full; sync empties it.
func (r *Records[R]) sync(now time.Time) {
	synced := make(chan struct{})
	guard.Go(func() {
		defer close(synced)
		defer func() { <-r.syncing }()
		ctx, cancel := context.WithTimeout(r.work, storeTimeout)
		defer cancel()
		err := guard.Call(func() error {
			if err := r.load(ctx, now); err != nil {
				return err
			}
			return r.write(ctx, now)
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
	})
	select {
	case <-synced:
	case <-time.After(storeWait):
	}
}

// load reads the stored records once. They replace earlier observations of the same instances.
func (r *Records[R]) load(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	loaded := r.loaded
	r.mu.Unlock()
	if loaded {
		return nil
	}
	shards, err := r.store.List(ctx, r.prefix)
	if err != nil {
		return fmt.Errorf("load the records of instances: %w", err)
	}
	all := map[string]R{}
	for key, text := range shards {
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("load the records of instances: entry %q of the fleet's store: %w", key, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, record := range all {
		r.shardLocked(id).records[id] = entry[R]{record, now.Sub(r.began)}
	}
	r.loaded, r.swept = true, now
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

// Observe sets and returns the record of an existing instance. next computes it from the previous
// record, or from the zero R if there is none. It must not use the Records.
func (r *Records[R]) Observe(id string, now time.Time, next func(before R, known bool) R) R {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.shardLocked(id)
	before, ok := at.records[id]
	record := next(before.record, ok)
	at.records[id] = entry[R]{record, now.Sub(r.began)}
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

func (r *Records[R]) write(ctx context.Context, now time.Time) error {
	changed := r.changed(now)
	var group guard.Group
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
	return group.Wait()
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
		maps.DeleteFunc(s.records, func(_ string, found entry[R]) bool { return now.Sub(r.began)-found.seen > forgottenAfter })
		s.dirty = s.dirty || len(s.records) < known
	}
}

// Failure returns the error of the last use of the store; nil if it succeeded.
func (r *Records[R]) Failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
