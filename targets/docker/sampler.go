package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// How many containers of one engine are read at once. Engines before 23.0.8 and 24.0.7
// answer every call at the next tick of a second: many more are read at once then.
const (
	samplingAtOnce     = 64
	slowSamplingAtOnce = 512
	slowAnswer         = 500 * time.Millisecond
)

// Container is a running container whose use can be sampled.
type Container struct {
	// Instance is the id of its instance in readings, Task the name of its task there.
	Instance, Task string
	// Engine runs it; nil when none is known that does, for the reason of Err.
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

func (c Container) key() key { return key{c.Engine, c.ID} }

// Sampler asks for the resource use of the containers that were published, every
// interval while somebody asks for it. A container takes two readings to have a sample.
// It is safe for concurrent use.
type Sampler struct {
	*sampling.Members[key, Container, measured]
	work sync.WaitGroup

	mu sync.Mutex
	// busy are the engines that are being read.
	busy map[*Engine]bool
}

// measured is what is known of a container's use.
type measured struct {
	// counters are the newest, sample what follows from the last two, err why there
	// is none.
	counters counters
	sample   sample
	err      error
}

// sample is the use of one container and when it was learned, which is by this
// machine's clock.
type sample struct {
	at      time.Time
	window  time.Duration
	usage   []policy.Amount
	learned time.Time
}

// NewSampler returns a sampler with that interval, which does nothing before the first
// call of Samples.
func NewSampler(interval time.Duration) *Sampler {
	s := &Sampler{busy: map[*Engine]bool{}}
	s.Members = sampling.NewMembers(interval, sampling.Kind[key, Container, measured]{
		Key: Container.key, Pass: s.pass, Sample: s.sampleOf,
	})
	return s
}

// Close ends the sampling.
func (s *Sampler) Close() {
	s.Members.Close() // no pass begins work any more
	s.work.Wait()
}

// sampleOf returns a container's sample where that is not too old, and what went wrong
// with it.
func (s *Sampler) sampleOf(c Container, known measured) (*targets.InstanceSample, error) {
	err := c.Err
	if err == nil && known.err != nil {
		err = fmt.Errorf("read the stats of container %.12s: %w", c.ID, known.err)
	}
	if time.Since(known.sample.learned) > s.Validity() {
		return nil, err
	}
	return &targets.InstanceSample{
		ID: c.Instance, At: known.sample.at, Window: known.sample.window,
		Tasks: []policy.TaskUsage{{Task: c.Task, Usage: known.sample.usage}},
	}, err
}

// pass samples containers once, each engine's on its own: a slow one keeps no other
// waiting.
func (s *Sampler) pass(ctx context.Context, due []Container) error {
	byEngine := map[*Engine][]Container{}
	for _, c := range due {
		if c.Engine != nil {
			byEngine[c.Engine] = append(byEngine[c.Engine], c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for engine, containers := range byEngine {
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
	return nil
}

// sampleEngine samples one engine's containers: one alone, which shows how fast the
// engine is and whether it can be reached, then the others.
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

// gone reports whether an engine is not to be called again in this pass.
func gone(err error) bool {
	return errors.Is(err, targets.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, targets.ErrForbidden) ||
		errors.Is(err, targets.ErrThrottled) || lost(err)
}

// sample samples one container.
func (s *Sampler) sample(ctx context.Context, c Container) error {
	found, err := readCounters(ctx, c.Engine, c.ID)
	if err != nil {
		s.fail(c, err)
		return err
	}
	found.started = c.Started
	now := time.Now()
	s.Learn(c.key(), func(known *measured) { known.add(found, now, s.Validity()) })
	return nil
}

// fail records why a container has no new sample. One that is gone is no failure.
func (s *Sampler) fail(c Container, err error) {
	if errors.Is(err, targets.ErrTargetNotFound) {
		err = nil
	}
	s.Learn(c.key(), func(known *measured) { known.err = err })
}

// add keeps new counters, and makes a sample of them where they follow on the ones
// before: not where the container started again, a counter or the clock went back, or
// more time passed than a sample may cover.
func (known *measured) add(found counters, now time.Time, validity time.Duration) {
	known.err = nil
	before := known.counters
	if before.started.Equal(found.started) && found.read.Equal(before.read) {
		return // measured no second time
	}
	known.counters, known.sample = found, sample{}
	span := found.read.Sub(before.read)
	if !before.started.Equal(found.started) || found.cpu < before.cpu || span <= 0 || span > validity {
		return
	}
	known.sample = sample{at: found.read, window: span, usage: usage(before, found), learned: now}
	if found.read.After(now) {
		known.sample.at = now
	}
}
