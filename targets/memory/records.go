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
	// belongs returns the name of the shard of a record, by its id.
	belongs func(id string) string
	// saving is held while records are stored, so that none is by an older one.
	saving chan struct{}

	mu     sync.Mutex
	loaded bool
	known  map[string]entry[R]
	shards map[string]*shard
	// dirty are the shards whose records changed since they were saved.
	dirty []*shard
	swept time.Time
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
	at     *shard
}

// shard is records that are stored under one key. It is one value for all of them, since
// each save looks at every record's.
type shard struct {
	name  string
	dirty bool
}

// New returns the records that a store keeps below a prefix of its keys; a store of nil
// keeps none across restarts. Belongs returns the name of the shard in which a record is
// stored, by its id, so that a change of one rewrites a small part of all. It must return
// the same in every version of hpad.
func New[R Record[R]](store targets.Store, prefix string, belongs func(id string) string) *Records[R] {
	return &Records[R]{store: store, prefix: prefix, belongs: belongs, saving: make(chan struct{}, 1), known: map[string]entry[R]{}, shards: map[string]*shard{}}
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
			r.keepLocked(id, record, r.shardLocked(strings.TrimPrefix(key, r.prefix)), now)
		}
	}
	r.loaded = true
	r.swept = now
	return nil
}

// keepLocked keeps a record that was stored in a shard, and moves it to the shard where it
// belongs.
func (r *Records[R]) keepLocked(id string, record R, here *shard, now time.Time) {
	_, again := r.known[id]
	at := r.shardLocked(r.belongs(id))
	if !again || here == at {
		r.known[id] = entry[R]{record, r.sinceEpoch(now), at}
	}
	if here != at {
		r.touchLocked(here, at)
	}
}

// shardLocked returns the shard with a name.
func (r *Records[R]) shardLocked(name string) *shard {
	at, ok := r.shards[name]
	if !ok {
		at = &shard{name: strings.Clone(name)} // which may be a part of a long text
		r.shards[at.name] = at
	}
	return at
}

// touchLocked has shards saved, where there is a store.
func (r *Records[R]) touchLocked(shards ...*shard) {
	for _, s := range shards {
		if !s.dirty && r.store != nil {
			s.dirty = true
			r.dirty = append(r.dirty, s)
		}
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

// Change changes what is known of an instance; nothing where nothing is. It must
// not use the Records.
func (r *Records[R]) Change(id string, change func(record *R)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, ok := r.known[id]; ok {
		change(&known.record)
		r.known[id] = known
		r.touchLocked(known.at)
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
		r.touchLocked(known.at)
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

// changed returns the records of shards that are to be stored, and takes them for
// stored.
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
