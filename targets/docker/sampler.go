package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// How many containers of one engine are asked for at once. Engines before 23.0.8
// and 24.0.7 keep every question waiting for the next tick of a second: all are
// asked at once then.
const (
	samplingAtOnce     = 64
	slowSamplingAtOnce = 512
	slowAnswer         = 500 * time.Millisecond
)

// Container is a running container whose use can be asked for.
type Container struct {
	// Instance is the id of its instance in readings, Task the name of its task
	// there.
	Instance, Task string
	// Engine runs it; nil when none is known that does, and Err then says why.
	Engine *Engine
	Err    error
	// ID is the container's id on that engine.
	ID string
	// Started is when it started last: its counters begin there.
	Started time.Time
}

// key names a container among those of all engines.
type key struct {
	engine *Engine
	id     string
}

// Sampler asks for the resource use of containers every interval while somebody
// asks for it, as a [sampling.Clock] does. It is safe for concurrent use.
type Sampler struct {
	clock *sampling.Clock
	work  sync.WaitGroup

	mu sync.Mutex
	// containers are those of the last reading of each target.
	containers map[targets.Ref][]Container
	// counted are the newest counters of each container, samples what follows
	// from the last two, failed why there are none.
	counted map[key]counters
	samples map[key]sample
	failed  map[key]error
	// busy are the engines that are being asked.
	busy map[*Engine]bool
}

// sample is the use of one container and when it was learned, which is by this
// machine's clock.
type sample struct {
	at      time.Time
	window  time.Duration
	usage   []policy.Amount
	learned time.Time
}

// NewSampler answers a sampler with that interval, which does nothing until it is
// asked.
func NewSampler(interval time.Duration) *Sampler {
	s := &Sampler{
		containers: map[targets.Ref][]Container{}, counted: map[key]counters{}, samples: map[key]sample{},
		failed: map[key]error{}, busy: map[*Engine]bool{},
	}
	s.clock = sampling.NewClock(interval, s.pass, s.rest)
	return s
}

// Publish says which running containers a target has: at every reading.
func (s *Sampler) Publish(ref targets.Ref, containers []Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers[ref] = containers
}

// Withdraw says that a target has no containers that are known: when it cannot be
// read.
func (s *Sampler) Withdraw(ref targets.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, ref)
}

// Close ends the sampling.
func (s *Sampler) Close() {
	s.clock.Close() // no pass begins work any more
	s.work.Wait()
}

// Samples answers the newest samples that are not too old, and sees to it that
// there will be more. A container takes two readings to have one. A target that
// was not published has no entry.
func (s *Sampler) Samples(refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	if !s.clock.Ask(refs, time.Now()) {
		return nil, fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := make(map[targets.Ref]targets.Samples, len(refs))
	for _, ref := range refs {
		if containers, known := s.containers[ref]; known {
			answer[ref] = s.of(containers)
		}
	}
	return answer, nil
}

// of answers the samples of containers that are not too old, and why others have
// none. The caller holds the lock.
func (s *Sampler) of(containers []Container) targets.Samples {
	samples := targets.Samples{Err: s.failure(containers)}
	for _, c := range containers {
		known, ok := s.samples[key{c.Engine, c.ID}]
		if !ok || time.Since(known.learned) > s.clock.Validity() {
			continue
		}
		samples.Instances = append(samples.Instances, targets.InstanceSample{
			ID: c.Instance, At: known.at, Window: known.window,
			Tasks: []policy.TaskUsage{{Task: c.Task, Usage: known.usage}},
		})
	}
	return samples
}

// failure answers what went wrong with the first container of which anything did;
// nil when nothing did. The caller holds the lock.
func (s *Sampler) failure(containers []Container) error {
	for _, c := range containers {
		if c.Err != nil {
			return c.Err
		}
		if err := s.failed[key{c.Engine, c.ID}]; err != nil {
			return fmt.Errorf("read the stats of container %.12s: %w", c.ID, err)
		}
	}
	return nil
}

// rest forgets what is known of containers.
func (s *Sampler) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counted)
	clear(s.samples)
	clear(s.failed)
}

// pass samples the containers of all wanted targets once, each engine's on its
// own: one that does not answer keeps no other waiting.
func (s *Sampler) pass(ctx context.Context, wanted []targets.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for engine, containers := range s.due(wanted) {
		if s.busy[engine] {
			continue
		}
		s.busy[engine] = true
		s.work.Go(func() {
			s.sampleEngine(ctx, engine, containers)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.busy, engine)
		})
	}
}

// due answers the containers to sample, by engine, and forgets what is known of
// all others. The caller holds the lock.
func (s *Sampler) due(wanted []targets.Ref) map[*Engine][]Container {
	byEngine := map[*Engine][]Container{}
	keep := map[key]bool{}
	for _, ref := range wanted {
		for _, c := range s.containers[ref] {
			if c.Engine != nil {
				byEngine[c.Engine] = append(byEngine[c.Engine], c)
				keep[key{c.Engine, c.ID}] = true
			}
		}
	}
	maps.DeleteFunc(s.counted, func(k key, _ counters) bool { return !keep[k] })
	maps.DeleteFunc(s.samples, func(k key, _ sample) bool { return !keep[k] })
	maps.DeleteFunc(s.failed, func(k key, _ error) bool { return !keep[k] })
	return byEngine
}

// sampleEngine asks one engine for containers of its own: one alone, which tells
// how fast it answers and whether it does, then the others.
func (s *Sampler) sampleEngine(ctx context.Context, engine *Engine, containers []Container) {
	begun := time.Now()
	err := s.sample(ctx, containers[0])
	atOnce := samplingAtOnce
	if time.Since(begun) > slowAnswer {
		atOnce = slowSamplingAtOnce
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	var silent atomic.Pointer[error]
	if gone(err) {
		silent.Store(&err)
	}
	for _, c := range containers[1:] {
		group.Go(func() error {
			if err := silent.Load(); err != nil {
				s.fail(c, *err)
				return nil
			}
			if err := s.sample(ctx, c); gone(err) {
				silent.Store(&err)
			}
			return nil
		})
	}
	_ = group.Wait() // each container has its own error
}

// gone says that an engine is not worth asking again in this pass.
func gone(err error) bool {
	return errors.Is(err, errTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, targets.ErrForbidden) ||
		errors.Is(err, targets.ErrThrottled) || lost(err)
}

// sample asks for the use of one container.
func (s *Sampler) sample(ctx context.Context, c Container) error {
	found, err := readCounters(ctx, c.Engine, c.ID)
	if err != nil {
		s.fail(c, err)
		return err
	}
	found.started = c.Started
	s.take(key{c.Engine, c.ID}, found, time.Now())
	return nil
}

// fail notes why a container has no new sample. One that is gone is no failure.
func (s *Sampler) fail(c Container, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{c.Engine, c.ID}
	if errors.Is(err, targets.ErrTargetNotFound) {
		delete(s.failed, k)
		return
	}
	s.failed[k] = err
}

// take keeps what an engine says of a container, and makes a sample of it where
// it follows on what was said before: not where the container started again, a
// counter or the clock went back, or too much time passed.
func (s *Sampler) take(k key, found counters, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, k)
	before, known := s.counted[k]
	if known && before.started.Equal(found.started) && found.read.Equal(before.read) {
		return // measured no second time
	}
	s.counted[k] = found
	span := found.read.Sub(before.read)
	if !known || !before.started.Equal(found.started) || found.cpu < before.cpu || span <= 0 || span > s.clock.Validity() {
		delete(s.samples, k)
		return
	}
	next := sample{at: found.read, window: span, usage: usage(before, found), learned: now}
	if next.at.After(now) {
		next.at = now
	}
	s.samples[k] = next
}
