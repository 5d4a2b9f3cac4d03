package process

import (
	"context"
	"fmt"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
	"github.com/hpad/hpad/targets/sampling"
)

// sampler samples the resource usage of the instances at an interval while Samples is called.
type sampler = sampling.Members[string, *instance, sampling.Usage]

func newSampler(interval time.Duration) *sampler {
	var s *sampler
	s = sampling.NewMembers(interval, sampling.Kind[string, *instance, sampling.Usage]{
		Key:  func(i *instance) string { return i.id },
		Pass: func(_ context.Context, due []*instance) error { return sample(s, due) },
		Sample: func(i *instance, known sampling.Usage) (*targets.InstanceSample, error) {
			return known.Sample(i.id, i.service, s.Validity()), nil
		},
	})
	return s
}

// sample reads the process groups of the given instances.
func sample(s *sampler, due []*instance) error {
	leaders := map[int]bool{}
	pids := map[*instance]int{}
	for _, i := range due {
		if pid := i.leader(); pid != 0 {
			leaders[pid], pids[i] = true, pid
		}
	}
	groups, err := readGroups("/proc", leaders)
	if err != nil {
		return fmt.Errorf("%w: %w", targets.ErrTransient, err)
	}
	now := time.Now()
	for _, i := range due {
		group := groups[pids[i]]
		s.Learn(i.id, func(known *sampling.Usage) {
			if group.started == 0 { // the process is not running
				*known = sampling.Usage{}
				return
			}
			known.Add(sampling.Counters{
				Run: fmt.Sprint(pids[i], " ", group.started), At: now,
				CPU: group.ticks * (uint64(time.Second) / proc.ClockTicks), HasCPU: true, Memory: int64(group.bytes),
			}, now, s.Validity())
		})
	}
	return nil
}
