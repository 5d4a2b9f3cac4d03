package adapter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// member is a running instance that is sampled.
type member struct {
	ref targets.Ref
	id  string
}

// sampled is the last sample of an instance, or the error of an invalid sample.
type sampled struct {
	targets.InstanceSample
	received time.Time
	err      error
}

// Samples returns the latest samples of the given targets.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

// sample calls the adapter for the targets of the given instances.
func (f *Fleet) sample(ctx context.Context, due []member) error {
	wanted := map[member]bool{}
	named := map[string]bool{}
	for _, m := range due {
		wanted[m], named[m.ref.Name] = true, true
	}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(named)), maxTargets) {
		response, err := f.call(ctx, &Request{Call: Samples, Targets: names})
		if err != nil {
			return err
		}
		now := time.Now()
		for _, name := range names {
			for n := range response.Samples[name] {
				s := &response.Samples[name][n]
				m := member{targets.Ref{Fleet: f.base.Name, Name: name}, s.ID}
				if !wanted[m] {
					continue
				}
				found, err := s.convert(name, now)
				f.sampler.Learn(m, func(known *sampled) { *known = sampled{found, now, err} })
			}
		}
	}
	return nil
}

// convert converts a sample of an instance, which has one task.
func (s *Sample) convert(task string, now time.Time) (targets.InstanceSample, error) {
	usage, err := amounts(s.Usage)
	switch {
	case err != nil:
		return targets.InstanceSample{}, fmt.Errorf("call %q: invalid response: target %q: instance %q: usage.%w", Samples, task, s.ID, err)
	case s.At.IsZero() || !(s.Window > 0 && s.Window <= time.Hour.Seconds()):
		return targets.InstanceSample{}, fmt.Errorf("call %q: invalid response: target %q: instance %q: it lacks at, or its window is not between 0 and 3600 seconds", Samples, task, s.ID)
	}
	return targets.InstanceSample{
		ID: s.ID, At: earliest(s.At, now), Window: time.Duration(s.Window * float64(time.Second)),
		Tasks: []policy.TaskUsage{{Task: task, Usage: usage}},
	}, nil
}

// earliest returns the earlier of two times. The clock of an adapter may be ahead.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sampleOf returns the last sample of an instance unless it is invalid or too old.
func (f *Fleet) sampleOf(_ member, known sampled) (*targets.InstanceSample, error) {
	if known.err != nil {
		return nil, known.err
	}
	if known.received.IsZero() || time.Since(known.received) > f.sampler.Validity() {
		return nil, nil
	}
	return &known.InstanceSample, nil
}
