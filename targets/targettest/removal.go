package targettest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/targets"
)

// Removable is a Memory that implements targets.Remover: its instances can be removed by ID.
type Removable struct{ *Memory }

// MemoryRemoval is one call of Removable.Remove.
type MemoryRemoval struct {
	Ref targets.Ref
	// IDs are the requested instances. Taken are the instances that were removed.
	IDs, Taken      []string
	Version, Reason string
	At              time.Time
	// Err is the returned error. If it is an unknown outcome because of Fault.Lost, the instances
	// have been removed.
	Err error
}

// Remove removes instances by ID and lowers the count accordingly. Faults of writes apply to it,
// except Reach.
func (r Removable) Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error {
	m := r.Memory
	m.mu.Lock()
	m.calls.Writes++
	fault := m.takeLocked(WriteCall, []targets.Ref{ref})
	m.mu.Unlock()
	fate := fault.apply(ctx)

	m.mu.Lock()
	defer m.mu.Unlock()
	removal := MemoryRemoval{Ref: ref, IDs: slices.Clone(ids), Version: version, Reason: reason, At: time.Now(), Err: fate}
	if fate == nil {
		removal.Taken, removal.Err = m.removeInstances(ref, ids, version)
		if removal.Err == nil && fault != nil && fault.Lost {
			removal.Err = fmt.Errorf("%w: the response was lost", targets.ErrUnknownOutcome)
		}
	}
	if removal.Err != nil {
		removal.Err = fmt.Errorf("remove %d instances of %s: %w", len(ids), ref, removal.Err)
	}
	m.removals = append(m.removals, removal)
	return removal.Err
}

// Removals returns all calls of Remove, ordered by their ends.
func (m *Memory) Removals() []MemoryRemoval {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.removals)
}

// Protect sets whether an instance is protected from removal by ID. It panics if the target is
// unknown, and ignores an unknown instance.
func (m *Memory) Protect(name, id string, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known(name)
	for i := range t.instances {
		if t.instances[i].id == id {
			t.instances[i].protected = on
			t.stale = true
		}
	}
}

// Lose removes an instance as if its host had crashed. The count remains unchanged. If replace is
// true, a new instance takes its place. It panics if the target is unknown, and does nothing if the
// instance is unknown.
func (m *Memory) Lose(name, id string, replace bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known(name)
	before := len(t.instances)
	t.instances = slices.DeleteFunc(t.instances, func(i memoryInstance) bool { return i.id == id })
	t.stale = true
	if replace && len(t.instances) < before {
		t.scale(name, time.Now())
	}
}

// removeInstances removes instances and returns the IDs of the removed instances.
func (m *Memory) removeInstances(ref targets.Ref, ids []string, version string) ([]string, error) {
	t, ok := m.targets[ref.Name]
	if !ok || ref.Fleet != m.name {
		return nil, targets.ErrTargetNotFound
	}
	var victims []int
	for i := range t.instances {
		if t.instances[i].stopped.IsZero() && slices.Contains(ids, t.instances[i].id) {
			victims = append(victims, i)
		}
	}
	protected := slices.ContainsFunc(victims, func(i int) bool { return t.instances[i].protected })
	n := t.Replicas - int32(len(victims))
	switch {
	case version != "" && version != t.versionText():
		return nil, fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, version, t.versionText())
	case t.Hold != nil:
		return nil, &targets.HeldError{Hold: *t.Hold}
	case protected:
		return nil, fmt.Errorf("%w: an instance is protected", targets.ErrForbidden)
	case len(victims) == 0:
		return nil, nil
	case n < 0 || t.Min != nil && n < *t.Min:
		return nil, &targets.OutOfRangeError{Min: t.Min, Max: t.Max, Err: errors.New("fewer replicas than the minimum would remain")}
	}
	var taken []string
	for _, i := range victims {
		t.instances[i].stopped = time.Now()
		taken = append(taken, t.instances[i].id)
	}
	t.Replicas = n
	t.version++
	t.stale = true
	return taken, nil
}
