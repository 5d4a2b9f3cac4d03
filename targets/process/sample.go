package process

import (
	"maps"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// sampler reads the resource use of instances every interval while it is being
// asked. It stops when it was not asked for three intervals, or for twice the
// time between the last two questions where that is longer, so that an
// autoscaler with a long period gets samples too.
type sampler struct {
	interval  time.Duration
	instances func() map[string][]*instance

	mu       sync.Mutex
	asked    time.Time
	gap      time.Duration
	sampling bool
	closed   chan struct{}
	loop     sync.WaitGroup
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
	return &sampler{interval: interval, instances: instances, closed: make(chan struct{})}
}

// inherit takes what an older sampler read and published.
func (s *sampler) inherit(older *sampler) {
	older.mu.Lock()
	previous, published := maps.Clone(older.previous), maps.Clone(older.published)
	asked, gap := older.asked, older.gap
	older.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.previous, s.published, s.asked, s.gap = previous, published, asked, gap
}

// ask answers the samples published last that are not too old, by service, and
// sees to it that there will be more. The error is that of the last reading.
func (s *sampler) ask(now time.Time) (map[string]targets.Samples, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, nil
	default:
	}
	if !s.asked.IsZero() {
		s.gap = now.Sub(s.asked)
	}
	s.asked = now
	if !s.sampling {
		s.sampling = true
		s.loop.Go(s.run)
	}
	if s.err != nil {
		return nil, s.err
	}
	fresh := make(map[string]targets.Samples, len(s.published))
	for service, samples := range s.published {
		// The samples of a service are all of the same time.
		if len(samples.Instances) > 0 && now.Sub(samples.Instances[0].At) <= s.validity() {
			fresh[service] = samples
		}
	}
	return fresh, nil
}

// validity is how old a sample may be.
func (s *sampler) validity() time.Duration { return 2*s.interval + 5*time.Second }

// close ends the sampling.
func (s *sampler) close() {
	s.mu.Lock()
	close(s.closed)
	s.mu.Unlock()
	s.loop.Wait()
}

func (s *sampler) run() {
	ticker := time.NewTicker(s.interval)
	defer ticker.Stop()
	for {
		s.sample()
		select {
		case now := <-ticker.C:
			if s.idle(now) {
				return
			}
		case <-s.closed:
			return
		}
	}
}

// idle says whether nobody asked for long enough to stop, and if so notes that
// the sampler stops.
func (s *sampler) idle(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.asked) <= max(3*s.interval, 2*s.gap) {
		return false
	}
	s.sampling = false
	return true
}

// sample reads all instances and publishes what they used since the reading
// before.
func (s *sampler) sample() {
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
			if now.Sub(before.at) > s.validity() {
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

// since answers what was used between two readings of an instance. There is
// nothing to answer when its process is another one, or when cpu time was lost
// because a process ended that nobody in the group waited for.
func (c counter) since(before counter) (targets.InstanceSample, bool) {
	window := c.at.Sub(before.at)
	if before.at.IsZero() || window <= 0 || c.leader != before.leader || c.started != before.started || c.ticks < before.ticks {
		return targets.InstanceSample{}, false
	}
	seconds := float64(c.ticks-before.ticks) / clockTicks
	return targets.InstanceSample{
		At: c.at, Window: window,
		Tasks: []policy.TaskUsage{{Usage: []policy.Amount{
			{Resource: "cpu", Milli: int64(seconds / window.Seconds() * 1000)},
			{Resource: "memory", Milli: int64(c.bytes) * 1000},
		}}},
	}, true
}
