package process

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/proc"
	"github.com/hpad/hpad/targets/sampling"
)

// sampler reads the resource use of instances at an interval, while somebody wants it.
type sampler struct {
	clock     *sampling.Clock
	instances func() map[string][]*instance

	mu sync.Mutex
	// previous are the counters read last, by instance id.
	previous  map[string]counter
	published map[string]targets.Samples
	err       error
}

// counter is what was read of an instance at one time.
type counter struct {
	usage
	leader int
	at     time.Time
}

func newSampler(interval time.Duration, instances func() map[string][]*instance) *sampler {
	s := &sampler{instances: instances}
	s.clock = sampling.NewClock(interval, s.sample, nil)
	return s
}

// inherit takes what an older sampler read and published.
func (s *sampler) inherit(older *sampler) {
	older.mu.Lock()
	previous, published := maps.Clone(older.previous), maps.Clone(older.published)
	older.mu.Unlock()
	s.clock.Inherit(older.clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.previous, s.published = previous, published
}

// ask returns the samples published last that are not too old, by service, and keeps the
// sampler going. The error is that of the last reading.
func (s *sampler) ask(now time.Time) (map[string]targets.Samples, error) {
	if !s.clock.Ask(nil, now) {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	fresh := make(map[string]targets.Samples, len(s.published))
	for service, samples := range s.published {
		// The samples of a service are all of the same time.
		if len(samples.Instances) > 0 && now.Sub(samples.Instances[0].At) <= s.clock.Validity() {
			fresh[service] = samples
		}
	}
	return fresh, nil
}

// sample publishes what all instances used since the reading before.
func (s *sampler) sample(context.Context, []targets.Ref) {
	all := s.instances()
	leaders := map[int]bool{}
	pids := map[*instance]int{}
	for _, instances := range all {
		for _, i := range instances {
			if pid := i.leader(); pid != 0 {
				leaders[pid] = true
				pids[i] = pid
			}
		}
	}
	groups, err := readGroups("/proc", leaders)
	now := time.Now()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	if err != nil {
		return
	}
	counters := make(map[string]counter, len(pids))
	published := make(map[string]targets.Samples, len(all))
	for service, instances := range all {
		var samples targets.Samples
		for _, i := range instances {
			group, ok := groups[pids[i]]
			if !ok || group.started == 0 {
				continue
			}
			current := counter{usage: group, leader: pids[i], at: now}
			counters[i.id] = current
			before := s.previous[i.id]
			if now.Sub(before.at) > s.clock.Validity() {
				continue // the sampler has rested since
			}
			if sample, ok := current.since(before); ok {
				sample.ID = i.id
				sample.Tasks[0].Task = service
				samples.Instances = append(samples.Instances, sample)
			}
		}
		published[service] = samples
	}
	s.previous, s.published = counters, published
}

// since returns what was used between two readings of an instance: nothing when its
// process is another one, or when cpu time was lost because a process ended that nobody
// in the group waited for.
func (c counter) since(before counter) (targets.InstanceSample, bool) {
	window := c.at.Sub(before.at)
	if before.at.IsZero() || window <= 0 || c.leader != before.leader || c.started != before.started || c.ticks < before.ticks {
		return targets.InstanceSample{}, false
	}
	seconds := float64(c.ticks-before.ticks) / proc.ClockTicks
	return targets.InstanceSample{
		At: c.at, Window: window,
		Tasks: []policy.TaskUsage{{Usage: []policy.Amount{
			{Resource: "cpu", Milli: int64(seconds / window.Seconds() * 1000)},
			{Resource: "memory", Milli: int64(c.bytes) * 1000},
		}}},
	}, true
}
