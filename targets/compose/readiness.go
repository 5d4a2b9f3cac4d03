package compose

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/ledger"
	"github.com/hpad/hpad/targets/memory"
)

// The engine remembers the last few health checks only, so when a container
// became ready is kept in the store: after a restart of hpad old containers would
// look new.

// record is what is remembered of a container.
type record struct {
	// Readiness and Changed are as last read.
	Readiness policy.Readiness `json:"r"`
	Changed   time.Time        `json:"c"`
	// Started is when it was started last, or first seen running.
	Started time.Time `json:"s"`
	// Asked is when it ended in a way that looks like a failure, though somebody had
	// ended it; zero when it did not.
	Asked time.Time `json:"a,omitzero"`
	// Gone is when it was first missing; zero while it is there.
	Gone time.Time `json:"g,omitzero"`
}

func (m record) equal(other record) bool {
	return m.Readiness == other.Readiness && m.Changed.Equal(other.Changed) && m.Started.Equal(other.Started) && m.Asked.Equal(other.Asked) && m.Gone.Equal(other.Gone)
}

// records are those of a service's containers, by id.
type records map[string]record

// Equal reports whether other need not be stored in place of the records.
func (r records) Equal(other records) bool { return maps.EqualFunc(r, other, record.equal) }

func (r records) Empty() bool { return len(r) == 0 }

const memoryPrefix = "instances/"

// memories are the records of all services. They are safe for concurrent use.
type memories struct {
	*ledger.Ledger[records]
	saveErr atomic.Pointer[error]
}

func newMemories(store targets.Store) *memories {
	return &memories{Ledger: ledger.New[records](store, memoryPrefix)}
}

func (m *memories) recall(k key) map[string]record {
	known, _ := m.Of(k.String())
	return known
}

// keep remembers what was read of a service's containers and stores what changed. What
// cannot be stored stays known, and is stored as soon as it can be.
func (m *memories) keep(ctx context.Context, k key, next map[string]record, now time.Time) {
	m.Change(k.String(), func(before records) records {
		for id, old := range before {
			if _, there := next[id]; there {
				continue
			}
			if old.Gone.IsZero() {
				old.Gone = now
			}
			if now.Sub(old.Gone) <= forgottenAfter {
				next[id] = old
			}
		}
		return next
	})
	err := m.Save(ctx, k.String())
	m.saveErr.Store(&err)
}

// drop forgets a service.
func (m *memories) drop(ctx context.Context, k key) {
	m.Change(k.String(), func(records) records { return nil })
	_ = m.Save(ctx, k.String()) // the next hpad drops an entry that stays
}

// failure returns why the last save failed; nil when it did not.
func (m *memories) failure() error {
	if err := m.saveErr.Load(); err != nil {
		return *err
	}
	return nil
}

// judge returns what is to be remembered of a container, from what the engine shows of
// it now and what is known of it.
func judge(m *member, d *detail, before record, now time.Time) record {
	started, restarted := memory.Begun(d.started, before.Started, m.runs(), now)
	next := record{Started: started, Readiness: policy.ReadinessFalse}
	if d.signalled {
		next.Asked = d.finished
	}
	var since time.Time
	switch {
	case m.State == container.StatePaused:
		since = now
	case m.State != container.StateRunning:
		since = clock.Later(d.finished, time.Unix(m.Created, 0))
	case m.health == container.Healthy:
		next.Readiness = policy.ReadinessTrue
		since = clock.Later(d.healthySince, next.Started)
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
