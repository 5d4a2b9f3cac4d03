// Package sampling contains the parts of sampling that all kinds of fleets share: the [Members]
// that are sampled at an interval, and the [Usage] between two readings.
package sampling

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
)

// Members samples the members of targets at an interval. It stores the sampled values and, for
// each target, the members at its last reading. M is a member, K its key, which is unique among
// the members of all targets, and V its sampled value, initially the zero V. It is safe for
// concurrent use.
//
// A target is sampled for three intervals after a call of Samples, or for twice the time between
// the last two calls if that is longer, so that autoscalers with a long period get samples.
type Members[K comparable, M, V any] struct {
	interval time.Duration
	kind     Kind[K, M, V]
	ctx      context.Context
	cancel   context.CancelFunc
	loop     guard.Tasks

	mu sync.Mutex
	// started reports whether Samples was called. running reports whether the last pass had
	// targets in demand.
	started, running bool
	demand           map[targets.Ref]demand
	// published maps each target to a function that lists its members at the last reading.
	published map[targets.Ref]func() []M
	known     map[K]V
	// err is the error of the last pass.
	err error
}

// demand contains the time of the last call of Samples for a target. gap is the time since the
// previous call that was at least an interval earlier.
type demand struct {
	last time.Time
	gap  time.Duration
}

// longestPeriod is the longest period of autoscalers.
const longestPeriod = time.Hour

// Kind contains the functions that depend on the kind of fleet.
type Kind[K comparable, M, V any] struct {
	// Key returns the key of a member.
	Key func(member M) K
	// Pass samples the members of the targets in demand, and stores their values with
	// [Members.Learn]. An error means that no member was sampled; Samples returns it until the
	// next pass. Passes never overlap. Close cancels ctx.
	Pass func(ctx context.Context, due []M) error
	// Sample returns a member's sample, computed from its value. It returns nil if there is no
	// recent sample, with an error if the reason is known. The only method of Members that it may
	// call is Validity.
	Sample func(member M, known V) (*targets.InstanceSample, error)
}

// NewMembers returns Members that are sampled at a positive interval. Sampling starts at the
// first call of Samples.
func NewMembers[K comparable, M, V any](interval time.Duration, kind Kind[K, M, V]) *Members[K, M, V] {
	m := &Members[K, M, V]{interval: interval, kind: kind, demand: map[targets.Ref]demand{}, published: map[targets.Ref]func() []M{}, known: map[K]V{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Validity returns the maximum age of a sample, which is also the longest time that it may
// cover.
func (m *Members[K, M, V]) Validity() time.Duration { return 2*m.interval + 5*time.Second }

// Running reports whether the last pass had targets in demand.
func (m *Members[K, M, V]) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

// Close stops sampling and waits for a pass in progress.
func (m *Members[K, M, V]) Close() {
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	m.loop.Wait()
}

// Publish sets the members of a target after it was read.
func (m *Members[K, M, V]) Publish(ref targets.Ref, members []M) {
	m.PublishFunc(ref, func() []M { return members })
}

// PublishFunc is like Publish, but creates the list only when it is needed. The function must
// always return equal lists, and must not call the Members.
func (m *Members[K, M, V]) PublishFunc(ref targets.Ref, list func() []M) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published[ref] = list
}

// Withdraw deletes the members of a target that cannot be read.
func (m *Members[K, M, V]) Withdraw(ref targets.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.published, ref)
}

// Learn changes the value of a member while the Members are locked.
func (m *Members[K, M, V]) Learn(key K, change func(known *V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known[key]
	change(&known)
	m.known[key] = known
}

// Inherit copies the members, values and demand of older. It must be called before the first call
// of Samples.
func (m *Members[K, M, V]) Inherit(older *Members[K, M, V]) {
	older.mu.Lock()
	demand, published, known := maps.Clone(older.demand), maps.Clone(older.published), maps.Clone(older.known)
	older.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.demand, m.published, m.known = demand, published, known
}

// Samples returns the newest samples, and requests further samples. Samples.Err of a target is
// the first error of its members. A target without published members has no entry. Samples
// returns the error of the last pass, or an ErrTransient after Close.
func (m *Members[K, M, V]) Samples(refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	m.request(refs, time.Now())
	if m.err != nil {
		return nil, m.err
	}
	all := make(map[targets.Ref]targets.Samples, len(refs))
	for _, ref := range refs {
		list, published := m.published[ref]
		if !published {
			continue
		}
		var samples targets.Samples
		for _, member := range list() {
			sample, err := m.kind.Sample(member, m.known[m.kind.Key(member)])
			if samples.Err == nil {
				samples.Err = err
			}
			if sample != nil {
				samples.Instances = append(samples.Instances, *sample)
			}
		}
		all[ref] = samples
	}
	return all, nil
}

// request records the demand for samples of targets. The first call starts the passes. The
// caller must hold mu.
func (m *Members[K, M, V]) request(refs []targets.Ref, now time.Time) {
	for _, ref := range refs {
		d := m.demand[ref]
		if since := now.Sub(d.last); !d.last.IsZero() && since >= m.interval {
			d.gap = min(since, longestPeriod)
		}
		d.last = now
		m.demand[ref] = d
	}
	if !m.started {
		m.started = true
		m.loop.Go(func() { guard.Loop(m.ctx, m.run) })
	}
}

func (m *Members[K, M, V]) run() {
	ticker := time.NewTicker(m.interval)
	defer ticker.Stop()
	for m.ctx.Err() == nil {
		var err error
		if due := m.due(time.Now()); len(due) > 0 {
			err = m.kind.Pass(m.ctx, due)
		}
		m.mu.Lock()
		m.err = err
		m.mu.Unlock()
		select {
		case <-ticker.C:
		case <-m.ctx.Done():
		}
	}
}

// due returns the members to sample, and deletes the values of all others.
func (m *Members[K, M, V]) due(now time.Time) []M {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []M
	keep := map[K]bool{}
	m.running = false
	for ref, d := range m.demand {
		switch since := now.Sub(d.last); {
		case since > max(3*m.interval, 2*longestPeriod):
			delete(m.demand, ref)
			continue
		case since > max(3*m.interval, 2*d.gap):
			continue
		}
		m.running = true
		list, published := m.published[ref]
		if !published {
			continue
		}
		for _, member := range list() {
			due = append(due, member)
			keep[m.kind.Key(member)] = true
		}
	}
	maps.DeleteFunc(m.known, func(key K, _ V) bool { return !keep[key] })
	return due
}
