package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Sighting is what a platform says of an instance now.
type Sighting struct {
	// Launched is when the instance started, or started anew; zero when the platform
	// does not say.
	Launched time.Time
	// Readiness is its health. ReadinessNotKnown leaves an instance ready that was.
	Readiness policy.Readiness
	// Since is when Readiness last changed; zero when the platform does not say.
	Since time.Time
}

// Record is what is remembered of an instance.
type Record struct {
	// FirstSeen is when the fleet first saw it.
	FirstSeen time.Time `json:"f"`
	// Launched is when it started, as the platform says; zero when it did not.
	Launched time.Time `json:"l,omitzero"`
	// Readiness and Changed are its health and when that changed.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	// Facts are what was learned of it.
	Facts *Facts `json:"i,omitempty"`

	seen time.Time
}

// Facts are what does not change as long as an instance runs. They are shared and
// not to be modified.
type Facts struct {
	// Name is the instance's name where it differs from its id.
	Name string `json:"n,omitempty"`
	// Addresses are host names and IP addresses.
	Addresses []string `json:"a,omitempty"`
	// Labels are the platform's own labels of it.
	Labels map[string]string `json:"t,omitempty"`
}

// Started is when the instance started: when the platform says, else when it was
// first seen.
func (r Record) Started() time.Time {
	if r.Launched.IsZero() {
		return r.FirstSeen
	}
	return r.Launched
}

// Records are stored in shards, so that a change of one rewrites a small part.
const (
	shardPrefix = "instances/"
	shards      = 256
	// saving is how many shards are saved at once.
	saving = 16
	// forgottenAfter is how long a vanished instance is remembered.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// Memory is what is remembered of all instances of a fleet, across restarts. It is
// safe for concurrent use.
type Memory struct {
	store targets.Store

	mu     sync.Mutex
	loaded bool
	known  map[string]Record
	dirty  map[string]bool
	swept  time.Time
	// saveErr is why the last save failed; nil when it did not.
	saveErr error
}

// NewMemory answers the memory that is kept in a store; nil keeps none across
// restarts.
func NewMemory(store targets.Store) *Memory {
	return &Memory{store: store, known: map[string]Record{}, dirty: map[string]bool{}}
}

func shardOf(id string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id)) // never fails
	return fmt.Sprintf("%02x", hash.Sum32()%shards)
}

// Load reads what was stored, once; it is called before anything else and tried
// again when it failed, with an ErrTransient.
func (m *Memory) Load(ctx context.Context, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded || m.store == nil {
		return nil
	}
	stored, err := m.store.List(ctx, shardPrefix)
	if err != nil {
		return fmt.Errorf("%w: load what is known of instances: %w", targets.ErrTransient, err)
	}
	for key, text := range stored {
		var records map[string]Record
		if err := json.Unmarshal(text, &records); err != nil {
			return fmt.Errorf("%w: load what is known of instances: entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		for id, record := range records {
			record.seen = now
			m.known[id] = record
		}
	}
	m.loaded = true
	m.swept = now
	return nil
}

// Recall answers what is known of an instance; false says that nothing is.
func (m *Memory) Recall(id string) (Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record, ok := m.known[id]
	return record, ok
}

// Learn remembers what was found out about an instance that is known.
func (m *Memory) Learn(id string, launched time.Time, facts *Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record, ok := m.known[id]
	if !ok {
		return
	}
	if !launched.IsZero() {
		record.Launched = launched
	}
	record.Facts = facts
	m.known[id] = record
	m.dirty[shardOf(id)] = true
}

// Forget removes what is known of an instance: one that starts its life anew.
func (m *Memory) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.known[id]; ok {
		delete(m.known, id)
		m.dirty[shardOf(id)] = true
	}
}

// Note remembers a sighting of an instance and answers what is known of it then.
func (m *Memory) Note(id string, s Sighting, now time.Time) Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.known[id]
	next := before
	if !ok {
		next.FirstSeen = now
	}
	if !s.Launched.IsZero() {
		next.Launched = s.Launched
	}
	restarted := !before.Launched.IsZero() && next.Launched.After(before.Launched)
	next.Readiness = s.Readiness
	if s.Readiness == policy.ReadinessNotKnown && before.Readiness == policy.ReadinessTrue && !restarted {
		next.Readiness = policy.ReadinessTrue
	}
	if !ok || restarted || next.Readiness != before.Readiness {
		next.Changed = changed(s.Since, before.Changed, now)
	}
	next.seen = now
	m.known[id] = next
	if !ok || !next.Launched.Equal(before.Launched) || next.Readiness != before.Readiness || !next.Changed.Equal(before.Changed) {
		m.dirty[shardOf(id)] = true
	}
	return next
}

// changed answers when readiness changed: at the time the platform names, where
// that is later than the change before, else now.
func changed(since, before, now time.Time) time.Time {
	if since.IsZero() || since.After(now) || !since.After(before) {
		return now
	}
	return since
}

// Save stores what changed since the last save, and forgets instances that
// vanished a day ago. What cannot be stored stays known, and is stored as soon as
// it can be; Failure says why.
func (m *Memory) Save(ctx context.Context, now time.Time) {
	m.mu.Lock()
	m.sweep(now)
	if m.store == nil || len(m.dirty) == 0 {
		clear(m.dirty)
		m.mu.Unlock()
		return
	}
	changed := make(map[string]map[string]Record, len(m.dirty))
	for shard := range m.dirty {
		changed[shard] = map[string]Record{}
	}
	for id, record := range m.known {
		if shard, ok := changed[shardOf(id)]; ok {
			shard[id] = record
		}
	}
	clear(m.dirty)
	m.mu.Unlock()

	var group errgroup.Group
	group.SetLimit(saving)
	for _, shard := range slices.Sorted(maps.Keys(changed)) {
		group.Go(func() error {
			err := m.saveShard(ctx, shard, changed[shard])
			if err != nil {
				m.mu.Lock()
				m.dirty[shard] = true
				m.mu.Unlock()
			}
			return err
		})
	}
	err := group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saveErr = err
}

func (m *Memory) saveShard(ctx context.Context, shard string, records map[string]Record) error {
	if len(records) == 0 {
		return m.store.Delete(ctx, shardPrefix+shard)
	}
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	return m.store.Save(ctx, shardPrefix+shard, text)
}

// sweep forgets instances that vanished long ago. The caller holds the lock.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepInterval {
		return
	}
	m.swept = now
	for id, record := range m.known {
		if now.Sub(record.seen) > forgottenAfter {
			delete(m.known, id)
			m.dirty[shardOf(id)] = true
		}
	}
}

// Failure answers why the last save failed; nil when it did not.
func (m *Memory) Failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saveErr
}
