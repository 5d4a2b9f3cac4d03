package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/memory"
)

// The engine remembers the last few health checks only, so when a container
// became ready is kept in the store: after a restart of hpad old containers would
// look new.

// record is what is remembered of a container.
type record struct {
	// Readiness and Changed are as last answered.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	// Started is when it was started last, or first seen running.
	Started time.Time `json:"s"`
	// Asked is when it ended in a way that looks like a failure, though somebody had
	// asked for it; zero when it did not.
	Asked time.Time `json:"a,omitzero"`
	// Gone is when it was first missing; zero while it is there.
	Gone time.Time `json:"g,omitzero"`
}

func (m record) equal(other record) bool {
	return m.Readiness == other.Readiness && m.Changed.Equal(other.Changed) && m.Started.Equal(other.Started) && m.Asked.Equal(other.Asked) && m.Gone.Equal(other.Gone)
}

const (
	memoryPrefix = "instances/"
	// forgottenAfter is how long a vanished container is remembered.
	forgottenAfter = 24 * time.Hour
	sweepInterval  = time.Hour
)

// memories are those of all containers, stored by service. They are safe for
// concurrent use.
type memories struct {
	store targets.Store

	mu    sync.Mutex
	known map[key]map[string]record
	// unsaved are the services whose entry in the store is older.
	unsaved map[key]bool
	// kept is when each service was read last, swept when that was looked at.
	kept  map[key]time.Time
	swept time.Time
	// saveErr is why the last save failed; nil when it did not.
	saveErr error
}

func newMemories(store targets.Store) *memories {
	return &memories{store: store, known: map[key]map[string]record{}, unsaved: map[key]bool{}, kept: map[key]time.Time{}, swept: time.Now()}
}

// load reads what was stored, in place of what is known.
func (m *memories) load(ctx context.Context) error {
	known, kept := map[key]map[string]record{}, map[key]time.Time{}
	err := loadAll(ctx, m.store, memoryPrefix, func(k key, stored map[string]record) {
		known[k], kept[k] = stored, time.Now()
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.kept = known, kept
	return nil
}

// recall answers what is known of a service's containers.
func (m *memories) recall(k key) map[string]record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[k]
}

// keep remembers what was answered of a service's containers and stores what
// changed. What cannot be stored stays known, and is stored as soon as it can be.
func (m *memories) keep(ctx context.Context, k key, next map[string]record, now time.Time) {
	m.mu.Lock()
	before := m.known[k]
	changed := m.unsaved[k]
	for id, old := range before {
		if _, there := next[id]; there {
			continue
		}
		if old.Gone.IsZero() {
			old.Gone = now
		}
		if now.Sub(old.Gone) <= forgottenAfter {
			next[id] = old
		} else {
			changed = true
		}
	}
	for id, record := range next {
		if old, known := before[id]; !known || !old.equal(record) {
			changed = true
		}
	}
	m.known[k], m.kept[k] = next, now
	m.mu.Unlock()
	if !changed {
		return
	}
	err := m.save(ctx, k, next)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saveErr = err
	m.unsaved[k] = err != nil
}

func (m *memories) save(ctx context.Context, k key, known map[string]record) error {
	if len(known) == 0 {
		return m.store.Delete(ctx, memoryPrefix+k.String())
	}
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return m.store.Save(ctx, memoryPrefix+k.String(), text)
}

// sweep forgets services that nobody has read for long.
func (m *memories) sweep(ctx context.Context, now time.Time) {
	m.mu.Lock()
	var over []key
	if now.Sub(m.swept) >= sweepInterval {
		m.swept = now
		for k, kept := range m.kept {
			if now.Sub(kept) > forgottenAfter {
				over = append(over, k)
			}
		}
	}
	for _, k := range over {
		delete(m.known, k)
		delete(m.kept, k)
		delete(m.unsaved, k)
	}
	m.mu.Unlock()
	for _, k := range over {
		_ = m.store.Delete(ctx, memoryPrefix+k.String()) // the next hpad's sweep finds what stays
	}
}

// failure answers why the last save failed; nil when it did not.
func (m *memories) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saveErr
}

// loadAll reads all entries of the store with a prefix, by service.
func loadAll[V any](ctx context.Context, store targets.Store, prefix string, take func(k key, value V)) error {
	entries, err := store.List(ctx, prefix)
	if err != nil {
		return fmt.Errorf("%w: load %q from the fleet's store: %w", targets.ErrTransient, prefix, err)
	}
	for name, text := range entries {
		k, err := parseName(name[len(prefix):])
		var value V
		if err == nil {
			err = json.Unmarshal(text, &value)
		}
		if err != nil {
			return fmt.Errorf("%w: load entry %q of the fleet's store: %w", targets.ErrTransient, name, err)
		}
		take(k, value)
	}
	return nil
}

// judge answers what is to be remembered of a container, from what the engine
// says of it now and what is known of it.
func judge(m *member, d *detail, before record, now time.Time) record {
	next := record{Started: d.started}
	if d.signalled {
		next.Asked = d.finished
	}
	if next.Started.IsZero() {
		next.Started = before.Started
		if next.Started.IsZero() && m.runs() {
			next.Started = now
		}
	}
	restarted := !before.Started.IsZero() && next.Started.After(before.Started)
	next.Readiness = policy.ReadinessFalse
	var since time.Time
	switch {
	case m.State == container.StatePaused:
		since = now
	case m.State != container.StateRunning:
		since = later(d.finished, time.Unix(m.Created, 0))
	case m.health == container.Healthy:
		next.Readiness = policy.ReadinessTrue
		since = later(d.healthySince, next.Started)
	case m.health == "": // no healthcheck: ready while it runs
		next.Readiness = policy.ReadinessTrue
		since = next.Started
	case m.health == container.Starting:
		since = next.Started
	default:
		since = now
	}
	next.Changed = memory.Turned(restarted || next.Readiness != before.Readiness, before.Changed, since, now)
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
