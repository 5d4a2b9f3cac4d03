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

// Memory is an in-memory fleet with faults that a test can inject. It is the reference
// implementation of the contract, and the daemon's tests use it. Like a platform, it outlives the
// daemons that use it. It is safe for concurrent use.
type Memory struct {
	name string

	mu      sync.Mutex
	targets map[string]*memoryTarget
	faults  []*fault
	calls   MemoryCalls
	writes  []MemoryWrite
	// removals records the calls of Removable.Remove.
	removals []MemoryRemoval
}

// MemoryTarget describes a target of a Memory.
type MemoryTarget struct {
	// Replicas is the desired count.
	Replicas int32
	// Min and Max are the platform's bounds; nil means no bound.
	Min, Max *int32
	// Hold rejects writes unless it is nil.
	Hold *policy.Hold
	// Err is returned in every reading of this target; nil means no error.
	Err error
	// Age is the time since the target's initial instances started.
	Age time.Duration
	// StartDelay is the time for which a new instance is Pending. ReadyDelay is the time that it
	// then runs before it is ready. StopDelay is the time for which a victim is Deleting.
	StartDelay, ReadyDelay, StopDelay time.Duration
	// Tasks run in each instance, with these requests.
	Tasks []policy.Task
	// Usage returns the resource use of one Running instance; running is the number of Running
	// instances. Nil means that there are no samples. It must not call the Memory.
	Usage func(now time.Time, instance policy.Instance, running int) []policy.TaskUsage
	// SamplesErr is returned with the samples; nil means no error.
	SamplesErr error
	// Window is the time span of each sample; 0 means 15 s.
	Window time.Duration
	// Bare omits the instances from readings, whose StatusReplicas is then the desired count. It
	// saves memory if there are many targets.
	Bare bool
	// Edit changes a reading before it is returned, for situations that the fields above cannot
	// describe. It must replace slices instead of modifying them. Nil means no change.
	Edit func(reading *targets.Reading)
}

// MemoryCalls counts calls, including failed ones.
type MemoryCalls struct {
	Snapshots, Writes, Samples int
	// Refs is the total number of targets in all Snapshot calls.
	Refs int
}

// MemoryWrite is one call of SetReplicas.
type MemoryWrite struct {
	Ref targets.Ref
	// From is the count before the call; 0 for an unknown target.
	From, To        int32
	Version, Reason string
	At              time.Time
	// Err is the returned error. If it is an unknown outcome because of Fault.Lost, the write has
	// been executed.
	Err error
}

type memoryTarget struct {
	MemoryTarget
	version   int64
	created   int
	instances []memoryInstance
	// reading is the last reading. It is valid until the target changes (stale) or an instance
	// changes its state (until; zero means never).
	reading targets.Reading
	stale   bool
	until   time.Time
}

type memoryInstance struct {
	id      string
	started time.Time
	// stopped is the time when the instance became a victim; zero means that it is not a victim.
	stopped time.Time
	// ready is the readiness that the test set at readyAt; nil means that it set none.
	ready   *bool
	readyAt time.Time
	// protected instances may not be removed by ID.
	protected bool
}

// NewMemory returns an empty fleet with the given name.
func NewMemory(name string) *Memory {
	return &Memory{name: name, targets: map[string]*memoryTarget{}}
}

// Ref returns the reference of the target with a name, whether or not the target exists.
func (m *Memory) Ref(name string) targets.Ref { return targets.Ref{Fleet: m.name, Name: name} }

// Add creates or replaces a target with its instances.
func (m *Memory) Add(name string, target MemoryTarget) targets.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &memoryTarget{MemoryTarget: target, version: 1, stale: true}
	t.scale(name, time.Now().Add(-target.Age))
	m.targets[name] = t
	return m.Ref(name)
}

// Remove removes a target and all its instances.
func (m *Memory) Remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.targets, name)
}

// Change changes a target like an external writer. A changed count creates a new version. It
// panics if the target is unknown.
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

// SetReady makes an instance ready or unready from now on. It panics if the target is unknown, and
// ignores an unknown instance.
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

// Restart gives an instance a new start time, like a platform that restarts it in place. It panics
// if the target is unknown, and ignores an unknown instance.
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

// Replicas returns a target's desired count and is not counted as a call. It panics if the target
// is unknown.
func (m *Memory) Replicas(name string) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known(name).Replicas
}

// Calls returns the number of calls so far.
func (m *Memory) Calls() MemoryCalls {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// Writes returns all calls of SetReplicas, ordered by their ends.
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
	if err := fault.apply(ctx); err != nil {
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

// SetReplicas sets the desired count of one target to n.
func (m *Memory) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	m.mu.Lock()
	m.calls.Writes++
	fault := m.takeLocked(WriteCall, []targets.Ref{ref})
	m.mu.Unlock()
	fate := fault.apply(ctx)

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
		return &targets.PartialError{Reached: reach, Err: fmt.Errorf("no capacity for %d replicas", n)}
	case fault != nil && fault.Lost:
		return fmt.Errorf("%w: the response was lost", targets.ErrUnknownOutcome)
	}
	return nil
}

// Samples returns the current resource use of the given targets' Running instances.
func (m *Memory) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	m.mu.Lock()
	m.calls.Samples++
	fault := m.takeLocked(SamplesCall, refs)
	m.mu.Unlock()
	if err := fault.apply(ctx); err != nil {
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

// scale adjusts the instances to the desired count. New instances start at now; the newest ones
// are stopped first.
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

// observe creates a new reading.
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
		if instance.Readiness != policy.ReadinessTrue {
			locations[i].UnreadyReason = "made unready"
		}
	}
	t.reading.Locations = locations
}

// instance returns the state of an instance at now, and records when it changes next.
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

// changes records that the reading is not valid after the given time.
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
