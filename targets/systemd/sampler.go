package systemd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// sampler samples the resource usage of instances, keyed by unit name.
type sampler struct {
	*sampling.Members[string, sampled, sampling.Usage]
	manager manager
}

// sampled is one running instance.
type sampled struct {
	unit, task string
	// activation identifies the instance's run, and group its control group.
	activation, group string
}

// processesSuffix marks a run with a CPU time that is the sum over its processes.
const processesSuffix = "/processes"

func newSampler(interval time.Duration, m manager) *sampler {
	s := &sampler{manager: m}
	s.Members = sampling.NewMembers(interval, sampling.Kind[string, sampled, sampling.Usage]{
		Key: func(m sampled) string { return m.unit }, Pass: s.pass, Sample: s.sample,
	})
	return s
}

func (t *target) sampled(units map[int32]unit, cache *detailCache) []sampled {
	m := t.current()
	var all []sampled
	for index, u := range units {
		if d, ok := cache.get(u.Name); ok && u.state == running && m.has(index) {
			all = append(all, sampled{unit: u.Name, task: string(t.template), activation: d.activation, group: d.group})
		}
	}
	return all
}

// sample returns an instance's sample and the error of its last reading.
func (s *sampler) sample(m sampled, usage sampling.Usage) (*targets.InstanceSample, error) {
	if !strings.HasPrefix(usage.Run, m.activation) {
		return nil, usage.Err
	}
	return usage.Sample(m.unit, m.task, s.Validity()), usage.Err
}

func (s *sampler) pass(ctx context.Context, due []sampled) error {
	group, ctx := guard.WithContext(ctx)
	group.SetLimit(maxCalls)
	for _, m := range due {
		group.Go(func() error {
			found, err := s.count(ctx, m)
			s.Learn(m.unit, func(usage *sampling.Usage) {
				if !found.At.IsZero() {
					usage.Add(found, time.Now(), s.Validity())
				}
				usage.Err = err
			})
			return nil
		})
	}
	_ = group.Wait() // each instance has its own error
	return nil
}

// count reads the counters of one instance. If the manager does not account CPU time, it uses
// the sum over the processes in the control group. The error reports missing counters.
func (s *sampler) count(ctx context.Context, m sampled) (sampling.Counters, error) {
	found := sampling.Counters{Run: m.activation, Memory: -1}
	value, err := s.manager.property(ctx, m.unit, cpuUsage)
	if err != nil {
		return found, err
	}
	found.At = time.Now()
	if found.CPU, found.HasCPU = number(value); !found.HasCPU {
		if found.CPU, err = controlGroups.cpu(m.group); err == nil {
			found.Run, found.HasCPU = m.activation+processesSuffix, true
		} else {
			err = fmt.Errorf("%w: no CPU accounting for %s (set CPUAccounting= in its unit file), and its processes cannot be read: %w", targets.ErrTransient, m.unit, err)
		}
	}
	value, memoryErr := s.manager.property(ctx, m.unit, memoryCurrent)
	if memoryErr != nil {
		return found, memoryErr
	}
	if bytes, ok := number(value); ok {
		found.Memory = int64(bytes - min(bytes, controlGroups.inactiveFile(m.group)))
	} else if err == nil {
		err = fmt.Errorf("%w: no memory accounting for %s (set MemoryAccounting= in its unit file)", targets.ErrTransient, m.unit)
	}
	return found, err
}
