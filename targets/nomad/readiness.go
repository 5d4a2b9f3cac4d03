package nomad

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

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Every change of a count updates all allocations of the group in place, and
// Nomad then forgets their health until they have been watched anew. Read
// plainly, the whole group would be unready after each step. Health is therefore
// sticky: an allocation that was ready stays so until Nomad calls it unhealthy or
// its tasks start again. The memory is kept across restarts of hpad, or those
// that run already would look new.

// memory is what is remembered of an allocation.
type memory struct {
	// Readiness and Changed are as last answered.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	// Started is when its tasks started, or when it was first seen running.
	Started time.Time `json:"s"`
	seen    time.Time
}

// Memories are stored in shards by the first two digits of the allocation's id,
// so that a change of one rewrites a small part.
const (
	shardPrefix = "readiness/"
	shardDigits = 2
	// saving is how many shards are saved at once.
	saving = 16
	// forgottenAfter is how long a vanished allocation is remembered.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// memories are those of all allocations. They are safe for concurrent use.
type memories struct {
	store targets.Store

	mu     sync.Mutex
	loaded bool
	known  map[string]memory
	dirty  map[string]bool
	swept  time.Time
	// saveErr is why the last save failed; nil when it did not.
	saveErr error
}

func newMemories(store targets.Store) *memories {
	return &memories{store: store, known: map[string]memory{}, dirty: map[string]bool{}}
}

func shardOf(id string) string { return id[:min(shardDigits, len(id))] }

// load reads what was stored, once.
func (m *memories) load(ctx context.Context, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loaded || m.store == nil {
		return nil
	}
	shards, err := m.store.List(ctx, shardPrefix)
	if err != nil {
		return fmt.Errorf("%w: load what is known of allocations: %w", targets.ErrTransient, err)
	}
	for key, text := range shards {
		var stored map[string]memory
		if err := json.Unmarshal(text, &stored); err != nil {
			return fmt.Errorf("%w: load what is known of allocations: entry %q of the fleet's store: %w", targets.ErrTransient, key, err)
		}
		for id, known := range stored {
			known.seen = now
			m.known[id] = known
		}
	}
	m.loaded = true
	m.swept = now
	return nil
}

// recall answers what is known of an allocation.
func (m *memories) recall(id string) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[id]
}

// keep remembers what was answered of an allocation.
func (m *memories) keep(id string, now time.Time, next memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.known[id]
	next.seen = now
	m.known[id] = next
	if before.Readiness != next.Readiness || !before.Changed.Equal(next.Changed) || !before.Started.Equal(next.Started) {
		m.dirty[shardOf(id)] = true
	}
}

// save stores what changed since the last save, and forgets allocations that
// vanished long ago. What cannot be stored stays known, and is stored as soon as
// it can be.
func (m *memories) save(ctx context.Context, now time.Time) {
	if m.store == nil {
		return
	}
	m.mu.Lock()
	m.sweep(now)
	shards := make(map[string]map[string]memory, len(m.dirty))
	for shard := range m.dirty {
		shards[shard] = map[string]memory{}
	}
	if len(shards) > 0 {
		for id, known := range m.known {
			if shard, ok := shards[shardOf(id)]; ok {
				shard[id] = known
			}
		}
	}
	clear(m.dirty)
	m.mu.Unlock()

	var group errgroup.Group
	group.SetLimit(saving)
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		group.Go(func() error {
			err := m.saveShard(ctx, shard, shards[shard])
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

func (m *memories) saveShard(ctx context.Context, shard string, known map[string]memory) error {
	if len(known) == 0 {
		return m.store.Delete(ctx, shardPrefix+shard)
	}
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return m.store.Save(ctx, shardPrefix+shard, text)
}

// sweep forgets allocations that vanished long ago. The caller holds the lock.
func (m *memories) sweep(now time.Time) {
	if now.Sub(m.swept) < sweepInterval {
		return
	}
	m.swept = now
	for id, known := range m.known {
		if now.Sub(known.seen) > forgottenAfter {
			delete(m.known, id)
			m.dirty[shardOf(id)] = true
		}
	}
}

// failure answers why the last save failed; nil when it did not.
func (m *memories) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saveErr
}

// judge answers what is to be remembered of an allocation, from what Nomad says
// of it now and what is known of it. Checks is what the group's checks say, where
// they are asked for.
func judge(a *allocStub, g *group, before memory, checks policy.Readiness, now time.Time) memory {
	next := memory{Started: a.started()}
	phase := a.phase()
	if next.Started.IsZero() {
		// Nomad gives no time: the one at which it was first seen running counts.
		next.Started = before.Started
		if next.Started.IsZero() && phase == policy.PhaseRunning {
			next.Started = now
		}
	}
	restarted := !before.Started.IsZero() && next.Started.After(before.Started)
	ready := before.Readiness == policy.ReadinessTrue && !restarted
	var since time.Time
	switch healthy := a.healthy(); {
	case phase == policy.PhaseUnknown:
		next.Readiness = policy.ReadinessFalse
	case phase != policy.PhaseRunning:
		next.Readiness = policy.ReadinessFalse
		since = time.Unix(0, a.CreateTime)
	case healthy != nil && !*healthy:
		next.Readiness = policy.ReadinessFalse
		since = a.DeploymentStatus.Timestamp
	case healthy != nil:
		next.Readiness = policy.ReadinessTrue
		since = later(a.DeploymentStatus.Timestamp, next.Started)
	case ready:
		next.Readiness = policy.ReadinessTrue
	case !g.deployed:
		next.Readiness = policy.ReadinessTrue
		since = next.Started
	default:
		next.Readiness = policy.ReadinessFalse
		since = next.Started
	}
	if next.Readiness == policy.ReadinessTrue && checks != policy.ReadinessTrue {
		next.Readiness = checks
		since = now
	}
	switch {
	case next.Readiness == before.Readiness && !restarted && !before.Changed.IsZero():
		next.Changed = before.Changed
	case !before.Changed.IsZero():
		// Readiness turns while hpad looks: at the time Nomad names where that is
		// later than the last change, now where it is not.
		next.Changed = now
		if since.After(before.Changed) && since.Before(now) {
			next.Changed = since
		}
	default:
		next.Changed = since
		if since.IsZero() || since.After(now) {
			next.Changed = now
		}
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// quoted lists names in order.
func quoted[V any](names map[string]V) string {
	if len(names) == 0 {
		return "none"
	}
	return `"` + strings.Join(slices.Sorted(maps.Keys(names)), `", "`) + `"`
}
