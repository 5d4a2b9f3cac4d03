// Package sampling contains what the samplers of all kinds of fleets share: the [Clock] of
// their passes, the [Members] that are sampled individually, and the [Usage] between two
// readings.
package sampling

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Members samples the members of targets on its own [Clock]. It stores the sampled values and,
// for each target, the members at its last reading. M is a member, K its key, which is unique
// among the members of all targets, and V its sampled value, initially the zero V. It is safe
// for concurrent use.
type Members[K comparable, M, V any] struct {
	*Clock
	kind Kind[K, M, V]

	mu sync.Mutex
	// published maps each target to a function that lists its members at the last reading.
	published map[targets.Ref]func() []M
	known     map[K]V
	// err is the error of the last pass.
	err error
}

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
	m := &Members[K, M, V]{kind: kind, published: map[targets.Ref]func() []M{}, known: map[K]V{}}
	m.Clock = NewClock(interval, m.pass, m.rest)
	return m
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

// Inherit copies members and values from older Members, before the first call of Samples.
func (m *Members[K, M, V]) Inherit(older *Members[K, M, V]) {
	older.mu.Lock()
	published, known := maps.Clone(older.published), maps.Clone(older.known)
	older.mu.Unlock()
	m.Clock.Inherit(older.Clock)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.published, m.known = published, known
}

// Samples returns the newest samples, and requests further samples. Samples.Err of a target is
// the first error of its members. A target without published members has no entry. Samples
// returns the error of the last pass, or an ErrTransient after Close.
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

func (m *Members[K, M, V]) pass(ctx context.Context, wanted []targets.Ref) {
	err := m.kind.Pass(ctx, m.due(wanted))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// due returns the members to sample, and deletes the values of all others.
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

// rest deletes all values.
func (m *Members[K, M, V]) rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
	clear(m.known)
}
