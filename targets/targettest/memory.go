package targettest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// Memory is a fleet in memory whose every situation a test can bring about: the
// reference of the contract, and the fleet that the daemon's tests run on. It
// outlives the daemons that use it, as a platform does. It is safe for
// concurrent use.
type Memory struct {
	name string

	mu      sync.Mutex
	targets map[string]*memoryTarget
	faults  []*fault
	calls   MemoryCalls
	writes  []MemoryWrite
	// removals are the calls of Remove of a Removable.
	removals []MemoryRemoval
}

// MemoryTarget is what a Memory is told of one target.
type MemoryTarget struct {
	// Replicas is the desired count.
	Replicas int32
	// Min and Max are the platform's bounds; nil means none.
	Min, Max *int32
	// Hold refuses writes while it is set.
	Hold *policy.Hold
	// Err is returned for this target alone in every reading; nil means none.
	Err error
	// Age is how old the instances are that the target is added with.
	Age time.Duration
	// StartDelay is how long a new instance is Pending, ReadyDelay how long it is
	// then Running and not ready, StopDelay how long a victim is seen Deleting.
	StartDelay, ReadyDelay, StopDelay time.Duration
	// Tasks are those of each instance, with their requests.
	Tasks []policy.Task
	// Usage returns the use of one Running instance of so many; nil means that
	// there are no samples. It must not call the Memory.
	Usage func(now time.Time, instance policy.Instance, running int) []policy.TaskUsage
	// SamplesErr is returned with the samples; nil means none.
	SamplesErr error
	// Window is the span each sample covers; 0 means 15 s.
	Window time.Duration
	// Bare leaves the instances out of readings, whose StatusReplicas is then the
	// desired count: for many targets in little memory.
	Bare bool
	// Edit changes a reading before it is returned, for whatever cannot be said
	// above; nil changes nothing. It replaces slices rather than writing to them.
	Edit func(reading *targets.Reading)
}

// MemoryCalls counts calls, failed ones included.
type MemoryCalls struct {
	Snapshots, Writes, Samples int
	// Refs is how many targets the Snapshots asked for, all together.
	Refs int
}

// MemoryWrite is one call of SetReplicas.
type MemoryWrite struct {
	Ref targets.Ref
	// From is the count before it; 0 for an unknown target.
	From, To        int32
	Version, Reason string
	At              time.Time
	// Err is what was returned. Where that is lost the write was done all the same.
	Err error
}

type memoryTarget struct {
	MemoryTarget
	version   int64
	created   int
	instances []memoryInstance
	// reading is the last one made; it stands until the target changes (stale) or
	// an instance does by itself (until; zero means never).
	reading targets.Reading
	stale   bool
	until   time.Time
}

type memoryInstance struct {
	id      string
	started time.Time
	// stopped is when it became a victim; zero means that it is none.
	stopped time.Time
	// ready is what the test said of its readiness, at readyAt; nil means nothing.
	ready   *bool
	readyAt time.Time
	// protected instances may not be taken by name.
	protected bool
}

// NewMemory returns an empty fleet of that name.
func NewMemory(name string) *Memory {
	return &Memory{name: name, targets: map[string]*memoryTarget{}}
}

// Ref returns the reference of a target, existing or not.
func (m *Memory) Ref(name string) targets.Ref { return targets.Ref{Fleet: m.name, Name: name} }

// Add creates a target with its instances, or replaces one.
func (m *Memory) Add(name string, target MemoryTarget) targets.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &memoryTarget{MemoryTarget: target, version: 1, stale: true}
	t.scale(name, time.Now().Add(-target.Age))
	m.targets[name] = t
	return m.Ref(name)
}

// Remove takes a target away with all of its instances.
func (m *Memory) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.targets, name)
}

// Change lets a test change a target as somebody else would: a changed count
// makes a new version. An unknown target panics.
func (m *Memory) Change(name string, change func(target *MemoryTarget)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known(name)
	before := t.Replicas
	change(&t.MemoryTarget)
	t.stale = true
	if t.Replicas != before {
		t.version++
		t.scale(name, time.Now())
	}
}

// SetReady makes an instance ready or unready from now on. An unknown
// target panics; an unknown instance is left alone.
func (m *Memory) SetReady(name, id string, ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known(name)
	for i := range t.instances {
		if t.instances[i].id == id {
			t.instances[i].ready, t.instances[i].readyAt = &ready, time.Now()
			t.stale = true
		}
	}
}

// Restart gives an instance a new start time, as a platform does that restarts
// it in place. An unknown target panics; an unknown instance is left alone.
func (m *Memory) Restart(name, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known(name)
	for i := range t.instances {
		if t.instances[i].id == id {
			t.instances[i] = memoryInstance{id: id, started: time.Now()}
			t.stale = true
		}
	}
}

// Replicas returns the desired count of a target, without counting as a call. An
// unknown target panics.
func (m *Memory) Replicas(name string) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known(name).Replicas
}

// Calls returns how often the Memory was called.
func (m *Memory) Calls() MemoryCalls {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Writes returns all calls of SetReplicas, in the order of their ends.
func (m *Memory) Writes() []MemoryWrite {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.writes)
}

// Snapshot reads the given targets.
func (m *Memory) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	m.mu.Lock()
	m.calls.Snapshots++
	m.calls.Refs += len(refs)
	fault := m.takeLocked(SnapshotCall, refs)
	m.mu.Unlock()
	if err := fault.suffer(ctx); err != nil {
		return nil, fmt.Errorf("read fleet %q: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	readings := make(map[targets.Ref]targets.Reading, len(refs))
	for _, ref := range refs {
		t, ok := m.targets[ref.Name]
		switch {
		case !ok || ref.Fleet != m.name:
			readings[ref] = targets.Reading{Err: fmt.Errorf("read %s: %w", ref, targets.ErrTargetNotFound), Observed: now}
		case t.Err != nil:
			readings[ref] = targets.Reading{Err: t.Err, Observed: now}
		default:
			readings[ref] = t.read(now)
		}
	}
	return readings, nil
}

// SetReplicas asks for n replicas of one target.
func (m *Memory) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	m.mu.Lock()
	m.calls.Writes++
	fault := m.takeLocked(WriteCall, []targets.Ref{ref})
	m.mu.Unlock()
	fate := fault.suffer(ctx)

	m.mu.Lock()
	defer m.mu.Unlock()
	write := MemoryWrite{Ref: ref, To: n, Version: version, Reason: reason, At: time.Now()}
	if t, ok := m.targets[ref.Name]; ok {
		write.From = t.Replicas
	}
	write.Err = fate
	if fate == nil {
		write.Err = m.write(ref, n, version, fault)
	}
	if write.Err != nil {
		write.Err = fmt.Errorf("scale %s to %d replicas: %w", ref, n, write.Err)
	}
	m.writes = append(m.writes, write)
	return write.Err
}

func (m *Memory) write(ref targets.Ref, n int32, version string, fault *fault) error {
	t, ok := m.targets[ref.Name]
	switch {
	case !ok || ref.Fleet != m.name:
		return targets.ErrTargetNotFound
	case n < 0 || t.Min != nil && n < *t.Min || t.Max != nil && n > *t.Max:
		return &targets.OutOfRangeError{Min: t.Min, Max: t.Max, Err: fmt.Errorf("%d replicas requested", n)}
	case version != "" && version != t.versionText():
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, version, t.versionText())
	case t.Hold != nil:
		return &targets.HeldError{Hold: *t.Hold}
	}
	reach := n
	if fault != nil && fault.Reach != nil {
		reach = *fault.Reach
	}
	if reach != t.Replicas {
		t.Replicas = reach
		t.version++
		t.stale = true
		t.scale(ref.Name, time.Now())
	}
	switch {
	case reach != n:
		return &targets.PartialError{Reached: reach, Err: fmt.Errorf("no room for %d replicas", n)}
	case fault != nil && fault.Lost:
		return fmt.Errorf("%w: the answer was lost", targets.ErrUnknownOutcome)
	}
	return nil
}

// Samples returns the use of the Running instances of the given targets, as of
// now.
func (m *Memory) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	m.mu.Lock()
	m.calls.Samples++
	fault := m.takeLocked(SamplesCall, refs)
	m.mu.Unlock()
	if err := fault.suffer(ctx); err != nil {
		return nil, fmt.Errorf("sample fleet %q: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	samples := make(map[targets.Ref]targets.Samples, len(refs))
	for _, ref := range refs {
		if t, ok := m.targets[ref.Name]; ok && ref.Fleet == m.name && t.Usage != nil {
			samples[ref] = t.sample(now)
		}
	}
	return samples, nil
}

func (m *Memory) known(name string) *memoryTarget {
	t, ok := m.targets[name]
	if !ok {
		panic(fmt.Sprintf("targettest: no target %q among %q", name, slices.Sorted(maps.Keys(m.targets))))
	}
	return t
}

// scale brings the instances to the desired count: new ones start at now, the
// newest are stopped first.
func (t *memoryTarget) scale(name string, now time.Time) {
	if t.Bare {
		return
	}
	living := int32(0)
	for _, instance := range t.instances {
		if instance.stopped.IsZero() {
			living++
		}
	}
	for ; living < t.Replicas; living++ {
		t.instances = append(t.instances, memoryInstance{id: name + "-" + strconv.Itoa(t.created), started: now})
		t.created++
	}
	for i := len(t.instances) - 1; i >= 0 && living > t.Replicas; i-- {
		if t.instances[i].stopped.IsZero() {
			t.instances[i].stopped = now
			living--
		}
	}
}

func (t *memoryTarget) versionText() string { return strconv.FormatInt(t.version, 10) }

func (t *memoryTarget) read(now time.Time) targets.Reading {
	if t.stale || !t.until.IsZero() && !now.Before(t.until) {
		t.observe(now)
	}
	reading := t.reading
	reading.Observed = now
	if t.Edit != nil {
		t.Edit(&reading)
	}
	return reading
}

// observe makes the reading anew.
func (t *memoryTarget) observe(now time.Time) {
	t.stale, t.until = false, time.Time{}
	t.reading = targets.Reading{
		SpecReplicas: t.Replicas, StatusReplicas: t.Replicas,
		Min: t.Min, Max: t.Max, Hold: t.Hold, Version: t.versionText(),
	}
	if t.Bare {
		return
	}
	t.instances = slices.DeleteFunc(t.instances, func(i memoryInstance) bool {
		return !i.stopped.IsZero() && !now.Before(i.stopped.Add(t.StopDelay))
	})
	t.reading.StatusReplicas = 0
	t.reading.Instances = make([]policy.Instance, len(t.instances))
	locations := make(targets.LocationList, len(t.instances))
	for i := range t.instances {
		instance := t.instance(&t.instances[i], now)
		if !instance.Deleting {
			t.reading.StatusReplicas++
		}
		t.reading.Instances[i] = instance
		locations[i] = targets.Location{Name: instance.ID, Node: "memory", Protected: t.instances[i].protected}
	}
	t.reading.Locations = locations
}

// instance returns what an instance is at now, and records when that changes.
func (t *memoryTarget) instance(i *memoryInstance, now time.Time) policy.Instance {
	instance := policy.Instance{
		ID: i.id, Phase: policy.PhasePending, Readiness: policy.ReadinessFalse,
		StartedAt: i.started, ReadinessChanged: i.started, Tasks: t.Tasks,
	}
	running := i.started.Add(t.StartDelay)
	ready := running.Add(t.ReadyDelay)
	if !now.Before(running) {
		instance.Phase = policy.PhaseRunning
	} else {
		t.changes(running)
	}
	if !now.Before(ready) {
		instance.Readiness, instance.ReadinessChanged = policy.ReadinessTrue, ready
	} else {
		t.changes(ready)
	}
	if i.ready != nil && instance.Phase == policy.PhaseRunning {
		instance.Readiness, instance.ReadinessChanged = policy.ReadinessFalse, i.readyAt
		if *i.ready {
			instance.Readiness = policy.ReadinessTrue
		}
	}
	if !i.stopped.IsZero() {
		instance.Deleting = true
		t.changes(i.stopped.Add(t.StopDelay))
	}
	return instance
}

// changes notes that the reading stands no longer than that time.
func (t *memoryTarget) changes(at time.Time) {
	if t.until.IsZero() || at.Before(t.until) {
		t.until = at
	}
}

func (t *memoryTarget) sample(now time.Time) targets.Samples {
	reading := t.read(now)
	running := 0
	for _, instance := range reading.Instances {
		if instance.Phase == policy.PhaseRunning && !instance.Deleting {
			running++
		}
	}
	window := t.Window
	if window == 0 {
		window = 15 * time.Second
	}
	samples := targets.Samples{Instances: make([]targets.InstanceSample, 0, running), Err: t.SamplesErr}
	for _, instance := range reading.Instances {
		if instance.Phase != policy.PhaseRunning || instance.Deleting {
			continue
		}
		if tasks := t.Usage(now, instance, running); tasks != nil {
			samples.Instances = append(samples.Instances, targets.InstanceSample{ID: instance.ID, At: now, Window: window, Tasks: tasks})
		}
	}
	return samples
}
