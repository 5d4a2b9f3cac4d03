package sampling

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Members samples the members of targets, one by one, on a [Clock] of its own. It
// keeps the members of each target by its last reading, and what is known of each: M
// is a member, K its name among those of all targets, and V what is known of it, zero
// for nothing. It is safe for concurrent use.
type Members[K comparable, M, V any] struct {
	*Clock
	kind Kind[K, M, V]

	mu sync.Mutex
	// published list the members of the last reading of each target.
	published map[targets.Ref]func() []M
	known     map[K]V
	// err is the last pass's.
	err error
}

// Kind is how a kind of fleet samples.
type Kind[K comparable, M, V any] struct {
	// Key names a member.
	Key func(member M) K
	// Pass samples once the members that are due, those of all targets that are
	// wanted, and keeps what it finds by [Members.Learn]. An error means that it found
	// nothing at all, and is that of Samples until the next pass is over. No two passes
	// run at once, and ctx ends at Close.
	Pass func(ctx context.Context, due []M) error
	// Sample makes a sample of what is known of a member; nil where that is nothing
	// or too old, with an error where there is a reason. It must not call the Members,
	// but for Validity.
	Sample func(member M, known V) (*targets.InstanceSample, error)
	// Rest forgets what else is not to be known when sampling begins again; nil
	// forgets nothing. It must not call the Members.
	Rest func()
}

// NewMembers returns Members that are sampled every interval, which is more than 0,
// once Samples is called.
func NewMembers[K comparable, M, V any](interval time.Duration, kind Kind[K, M, V]) *Members[K, M, V] {
	m := &Members[K, M, V]{kind: kind, published: map[targets.Ref]func() []M{}, known: map[K]V{}}
	m.Clock = NewClock(interval, m.pass, m.rest)
	return m
}

// Publish sets the members of a target, at every reading.
func (m *Members[K, M, V]) Publish(ref targets.Ref, members []M) {
	m.PublishFunc(ref, func() []M { return members })
}

// PublishFunc is Publish of members that are listed when they are of use. The function
// always returns equal ones, and must not call the Members.
func (m *Members[K, M, V]) PublishFunc(ref targets.Ref, list func() []M) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published[ref] = list
}

// Withdraw forgets the members of a target that cannot be read.
func (m *Members[K, M, V]) Withdraw(ref targets.Ref) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.published, ref)
}

// Learn changes what is known of a member, under the lock of the Members.
func (m *Members[K, M, V]) Learn(key K, change func(known *V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known[key]
	change(&known)
	m.known[key] = known
}

// Inherit copies the members of an older Members, and what it knows of them, before the first
// call of Samples.
func (m *Members[K, M, V]) Inherit(older *Members[K, M, V]) {
	older.mu.Lock()
	published, known := maps.Clone(older.published), maps.Clone(older.known)
	older.mu.Unlock()
	m.Clock.Inherit(older.Clock)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published, m.known = published, known
}

// Samples returns the newest samples, and keeps the sampling going. With those of a
// target goes the first error of any of its members. A target that was not published
// has no entry. The error is that of the last pass, or an ErrTransient after Close.
func (m *Members[K, M, V]) Samples(refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	if !m.Ask(refs, time.Now()) {
		return nil, fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
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

// pass samples the members of all wanted targets once.
func (m *Members[K, M, V]) pass(ctx context.Context, wanted []targets.Ref) {
	err := m.kind.Pass(ctx, m.due(wanted))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// due returns the members to sample, and forgets what is known of all others.
func (m *Members[K, M, V]) due(wanted []targets.Ref) []M {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []M
	keep := map[K]bool{}
	for _, ref := range wanted {
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

// rest forgets what is known of members.
func (m *Members[K, M, V]) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
	clear(m.known)
	if m.kind.Rest != nil {
		m.kind.Rest()
	}
}
