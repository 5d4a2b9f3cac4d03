package systemd

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// sampler reads the resource use of instances, by the names of their units, while
// somebody wants it.
type sampler struct {
	*sampling.Members[string, sampled, measured]
	manager manager
}

type measured struct {
	// counters are the newest, sample what follows from the last two, err why there is
	// none or not all.
	counters counters
	sample   targets.InstanceSample
	err      error
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
	// nanoseconds of cpu were used, from the same source each time; bytes of memory are,
	// where hasMemory.
	nanoseconds uint64
	processes   bool
	hasCPU      bool
	bytes       uint64
	hasMemory   bool
}

func newSampler(interval time.Duration, m manager) *sampler {
	s := &sampler{manager: m}
	s.Members = sampling.NewMembers(interval, sampling.Kind[string, sampled, measured]{
		Key: func(m sampled) string { return m.unit }, Pass: s.pass, Sample: s.sample,
	})
	return s
}

// sampled returns the instances whose use can be read.
func (t *target) sampled(units map[int32]unit, known *detailCache) []sampled {
	m := t.current()
	var all []sampled
	for index, u := range units {
		if d, ok := known.of(u.Name); ok && u.state == running && m.has(index) {
			all = append(all, sampled{unit: u.Name, task: string(t.template), activation: d.activation, group: d.group})
		}
	}
	return all
}

// sample returns an instance's sample where that is not too old, and what there is
// nothing of.
func (s *sampler) sample(m sampled, known measured) (*targets.InstanceSample, error) {
	if known.counters.activation != m.activation || time.Since(known.sample.At) > s.Validity() {
		return nil, known.err
	}
	return &known.sample, known.err
}

func (s *sampler) pass(ctx context.Context, due []sampled) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, m := range due {
		group.Go(func() error {
			found, err := s.count(ctx, m)
			s.Learn(m.unit, func(known *measured) { known.enter(m, found, err, s.Validity()) })
			return nil
		})
	}
	_ = group.Wait() // each instance has its own error
	return nil
}

// count reads the counters of one instance. What the manager does not account is looked
// up in the instance's control group; an error is about what is missing.
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

// enter keeps what was read of an instance, and makes a sample of it where it follows on
// what was read before: not where the instance was started again, the counter went back,
// or more time passed than a sample may cover.
func (known *measured) enter(m sampled, found counters, err error, validity time.Duration) {
	known.err = err
	if found.at.IsZero() {
		return
	}
	before := known.counters
	known.counters, known.sample = found, targets.InstanceSample{}
	span := found.at.Sub(before.at)
	if before.activation != found.activation || span <= 0 || span > validity {
		return
	}
	usage := usageOf(before, found, span)
	if len(usage) == 0 {
		return
	}
	known.sample = targets.InstanceSample{
		ID: m.unit, At: found.at, Window: span, Tasks: []policy.TaskUsage{{Task: m.task, Usage: usage}},
	}
}

// usageOf returns what was used between two readings, without what was not measured.
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
