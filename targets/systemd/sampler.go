package systemd

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// sampler asks for the resource use of instances while somebody asks for it.
type sampler struct {
	manager manager
	clock   *sampling.Clock

	mu sync.Mutex
	// members are the running instances of the last reading of each target.
	members map[targets.Ref][]sampled
	// counted are the newest counters of each unit, usage what follows from the
	// last two, failed why there is none.
	counted map[string]counters
	usage   map[string]targets.InstanceSample
	failed  map[string]error
}

// sampled is one running instance.
type sampled struct {
	unit, task string
	// activation is when its counters begin, group its control group.
	activation, group string
}

// counters are what was read of an instance at one time.
type counters struct {
	activation string
	at         time.Time
	// nanoseconds of cpu were used, from the same source each time; bytes of
	// memory are, where hasMemory.
	nanoseconds uint64
	processes   bool
	hasCPU      bool
	bytes       uint64
	hasMemory   bool
}

func newSampler(interval time.Duration, m manager) *sampler {
	s := &sampler{
		manager: m, members: map[targets.Ref][]sampled{},
		counted: map[string]counters{}, usage: map[string]targets.InstanceSample{}, failed: map[string]error{},
	}
	s.clock = sampling.NewClock(interval, s.pass, s.rest)
	return s
}

func (s *sampler) close() { s.clock.Close() }

// sampled answers the instances whose use can be asked for.
func (t *target) sampled(units map[int32]unit, known *particulars) []sampled {
	m := t.current()
	var all []sampled
	for index, u := range units {
		if d, ok := known.of(u.Name); ok && u.state == running && m.has(index) {
			all = append(all, sampled{unit: u.Name, task: string(t.template), activation: d.activation, group: d.group})
		}
	}
	return all
}

// publish says which running instances a target has, at every reading; withdraw
// that it has none that are known.
func (s *sampler) publish(ref targets.Ref, members []sampled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[ref] = members
}

func (s *sampler) withdraw(ref targets.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, ref)
}

// samples answers the newest samples that are not too old, and sees to it that
// there will be more. A target that was not published has no entry.
func (s *sampler) samples(refs []targets.Ref, now time.Time) (map[targets.Ref]targets.Samples, error) {
	if !s.clock.Ask(refs, now) {
		return nil, fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := make(map[targets.Ref]targets.Samples, len(refs))
	for _, ref := range refs {
		members, published := s.members[ref]
		if !published {
			continue
		}
		var found targets.Samples
		for _, m := range members {
			if found.Err == nil && s.failed[m.unit] != nil {
				found.Err = s.failed[m.unit]
			}
			usage, ok := s.usage[m.unit]
			if ok && s.counted[m.unit].activation == m.activation && now.Sub(usage.At) <= s.clock.Validity() {
				found.Instances = append(found.Instances, usage)
			}
		}
		answer[ref] = found
	}
	return answer, nil
}

// rest forgets what is not to be known when sampling begins again.
func (s *sampler) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counted)
	clear(s.usage)
	clear(s.failed)
}

// pass samples the instances of targets once.
func (s *sampler) pass(ctx context.Context, wanted []targets.Ref) {
	due := s.due(wanted)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, m := range due {
		group.Go(func() error {
			found, err := s.count(ctx, m)
			s.take(m, found, err)
			return nil
		})
	}
	_ = group.Wait() // each instance has its own error
}

// due answers the instances to sample, and forgets what is known of all others.
func (s *sampler) due(wanted []targets.Ref) []sampled {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []sampled
	keep := map[string]bool{}
	for _, ref := range wanted {
		for _, m := range s.members[ref] {
			due = append(due, m)
			keep[m.unit] = true
		}
	}
	maps.DeleteFunc(s.counted, func(unit string, _ counters) bool { return !keep[unit] })
	maps.DeleteFunc(s.usage, func(unit string, _ targets.InstanceSample) bool { return !keep[unit] })
	maps.DeleteFunc(s.failed, func(unit string, _ error) bool { return !keep[unit] })
	return due
}

// count reads the counters of one instance. What the manager does not account is
// looked up in the instance's control group where it can be; an error says what
// there is nothing of.
func (s *sampler) count(ctx context.Context, m sampled) (counters, error) {
	found := counters{activation: m.activation}
	value, err := s.manager.property(ctx, m.unit, cpuUsage)
	if err != nil {
		return found, err
	}
	found.at = time.Now()
	if found.nanoseconds, found.hasCPU = set(value); !found.hasCPU {
		if found.nanoseconds, err = controlGroups.cpu(m.group); err == nil {
			found.processes, found.hasCPU = true, true
		} else {
			err = fmt.Errorf("%w: cpu of %s is not accounted (CPUAccounting= in its unit file), nor can its processes be read: %w", targets.ErrTransient, m.unit, err)
		}
	}
	value, memoryErr := s.manager.property(ctx, m.unit, memoryCurrent)
	if memoryErr != nil {
		return found, memoryErr
	}
	if bytes, ok := set(value); ok {
		found.bytes, found.hasMemory = bytes-min(bytes, controlGroups.inactiveFile(m.group)), true
	} else if err == nil {
		err = fmt.Errorf("%w: memory of %s is not accounted (MemoryAccounting= in its unit file)", targets.ErrTransient, m.unit)
	}
	return found, err
}

// take keeps what was read of an instance, and makes a sample of it where it
// follows on what was read before: not where the instance was started again, the
// counter went back, or too much time passed.
func (s *sampler) take(m sampled, found counters, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, m.unit)
	if err != nil {
		s.failed[m.unit] = err
	}
	if found.at.IsZero() {
		return
	}
	before, known := s.counted[m.unit]
	s.counted[m.unit] = found
	delete(s.usage, m.unit)
	span := found.at.Sub(before.at)
	if !known || before.activation != found.activation || span <= 0 || span > s.clock.Validity() {
		return
	}
	usage := usageOf(before, found, span)
	if len(usage) == 0 {
		return
	}
	s.usage[m.unit] = targets.InstanceSample{
		ID: m.unit, At: found.at, Window: span, Tasks: []policy.TaskUsage{{Task: m.task, Usage: usage}},
	}
}

// usageOf answers what was used between two readings; what was not measured is
// left out.
func usageOf(before, now counters, span time.Duration) []policy.Amount {
	var usage []policy.Amount
	if before.hasCPU && now.hasCPU && before.processes == now.processes && now.nanoseconds >= before.nanoseconds {
		cores := float64(now.nanoseconds-before.nanoseconds) / float64(span.Nanoseconds())
		usage = append(usage, policy.Amount{Resource: "cpu", Milli: int64(cores * 1000)})
	}
	if now.hasMemory {
		usage = append(usage, policy.Amount{Resource: "memory", Milli: int64(now.bytes) * 1000})
	}
	return usage
}
