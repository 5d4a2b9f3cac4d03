package docker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/sampling"
)

// maxReads limits the concurrent reads from one engine. Engines before 23.0.8 and 24.0.7 delay
// each response by up to a second.
const maxReads = 128

// Container is a running container.
type Container struct {
	// Instance is the ID used in readings, and Task the name of the instance's task.
	Instance, Task string
	// Name identifies the container or its task in error messages.
	Name string
	// Engine runs the container. If it is nil, Err is the reason.
	Engine *Engine
	Err    error
	ID     string
	// Started is the time of its last start, which resets its counters.
	Started time.Time
}

type key struct {
	engine *Engine
	id     string
}

func (c Container) key() key { return key{c.Engine, c.ID} }

// Sampler samples the resource usage of the published containers at an interval, as long as
// Samples is called. A sample requires two readings. It is safe for concurrent use.
type Sampler struct {
	*sampling.Members[key, Container, sampling.Usage]
}

// NewSampler returns a sampler that starts at the first call of Samples.
func NewSampler(interval time.Duration) *Sampler {
	s := &Sampler{}
	s.Members = sampling.NewMembers(interval, sampling.Kind[key, Container, sampling.Usage]{
		Key: Container.key, Pass: s.pass, Sample: s.sampleOf,
	})
	return s
}

// sampleOf returns a container's sample and the error of its last reading.
func (s *Sampler) sampleOf(c Container, known sampling.Usage) (*targets.InstanceSample, error) {
	err := c.Err
	if err == nil && known.Err != nil {
		err = fmt.Errorf("read the stats of container %s: %w", c.Name, known.Err)
	}
	return known.Sample(c.Instance, c.Task, s.Validity()), err
}

// pass samples the containers of all engines once.
func (s *Sampler) pass(ctx context.Context, due []Container) error {
	byEngine := map[*Engine][]Container{}
	for _, c := range due {
		if c.Engine != nil {
			byEngine[c.Engine] = append(byEngine[c.Engine], c)
		}
	}
	var engines guard.Group
	for _, containers := range byEngine {
		engines.Go(func() error {
			s.sampleEngine(ctx, containers)
			return nil
		})
	}
	return engines.Wait()
}

// sampleEngine samples the containers of one engine. It stops when the engine does not respond.
func (s *Sampler) sampleEngine(ctx context.Context, containers []Container) {
	var group guard.Group
	group.SetLimit(maxReads)
	var unreachable atomic.Pointer[error]
	for _, c := range containers {
		group.Go(func() error {
			if err := unreachable.Load(); err != nil {
				s.fail(c, *err)
			} else if err := s.sample(ctx, c); gone(err) {
				unreachable.Store(&err)
			}
			return nil
		})
	}
	_ = group.Wait() // each container has its own error
}

// gone reports whether the engine does not respond, which ends its part of the current pass.
func gone(err error) bool {
	return errors.Is(err, targets.ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, targets.ErrForbidden) ||
		errors.Is(err, targets.ErrThrottled) || lost(err)
}

func (s *Sampler) sample(ctx context.Context, c Container) error {
	found, err := readCounters(ctx, c.Engine, c.ID)
	if err != nil {
		s.fail(c, err)
		return err
	}
	found.Run = c.Started.UTC().Format(time.RFC3339Nano)
	s.Learn(c.key(), func(known *sampling.Usage) { known.Add(found, time.Now(), s.Validity()) })
	return nil
}

// fail stores the error of a reading, unless the container no longer exists.
func (s *Sampler) fail(c Container, err error) {
	if errors.Is(err, targets.ErrTargetNotFound) {
		err = nil
	}
	s.Learn(c.key(), func(known *sampling.Usage) { known.Err = err })
}
