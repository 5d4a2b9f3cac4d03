package drain

import (
	"context"
	"fmt"

	"github.com/hpad/hpad/targets"
)

// Victims returns whom a scale-down by n would take of a target, by a reading of
// this fleet's, the first one first: for explanations and dry runs. It is empty
// where the platform chooses.
func (f *Fleet) Victims(ctx context.Context, ref targets.Ref, reading targets.Reading, n int32) ([]Victim, error) {
	var options Options
	f.locked(func(tr *tracker) { options = tr.options[ref] })
	if !options.Victims.Named() || n <= 0 {
		return nil, nil
	}
	n -= max(0, reading.SpecReplicas-existing(reading)) // which costs nobody
	return f.pick(ctx, ref, options, reading, n)
}

// pick returns the victims of a scale-down by n.
func (f *Fleet) pick(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading, n int32) ([]Victim, error) {
	facts, err := f.facts(ctx, ref, options, reading)
	if err != nil {
		return nil, fmt.Errorf("choose instances of %s by %s: %w", ref, options.Victims, err)
	}
	return options.Victims.Pick(reading, int(n), facts)
}

// facts returns what the order goes by.
func (f *Fleet) facts(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading) (facts Facts, err error) {
	switch options.Victims {
	case LeastCPU:
		if options.CPU != nil {
			facts.CPUMilli, err = options.CPU(ctx, ref)
			return facts, err
		}
		sampling, ok := f.inner.(targets.Sampler)
		if !ok {
			return facts, fmt.Errorf("%w: nobody knows the use of cpu; give the autoscaler a cpu metric, or choose another order", targets.ErrUnscalable)
		}
		samples, err := sampling.Samples(ctx, []targets.Ref{ref})
		return Facts{CPUMilli: cpuOf(samples[ref])}, err
	case EmptyNomadNodes:
		counter, ok := options.Drainer.(Counter)
		if !ok {
			return facts, fmt.Errorf("%w: nobody knows the allocations; name the Nomad fleet, or choose another order", targets.ErrUnscalable)
		}
		var instances []Instance
		for i := range reading.Instances {
			if !reading.Instances[i].Deleting {
				instances = append(instances, instanceOf(ref, reading, i))
			}
		}
		facts.Allocations, err = counter.Allocations(ctx, instances)
	}
	return facts, err
}

// cpuOf adds up what each instance's tasks use.
func cpuOf(samples targets.Samples) map[string]int64 {
	use := map[string]int64{}
	for _, sample := range samples.Instances {
		for _, task := range sample.Tasks {
			for _, amount := range task.Usage {
				if amount.Resource == "cpu" {
					use[sample.ID] += amount.Milli
				}
			}
		}
	}
	return use
}

// instanceOf returns what a Drainer gets of the i-th instance of a reading.
func instanceOf(ref targets.Ref, reading targets.Reading, i int) Instance {
	instance := Instance{Target: ref, ID: reading.Instances[i].ID}
	if reading.Locations != nil {
		at := reading.Locations.At(i)
		instance.Name, instance.Node, instance.Addresses, instance.Labels = at.Name, at.Node, at.Addresses, at.Labels
	}
	return instance
}
