package daemon

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// scaleInOptions returns how the instances of the target are taken;
// cpuUse is what each of them uses.
func (d *definition) scaleInOptions(cpuUse *atomic.Pointer[map[string]int64]) drain.Options {
	options := drain.Options{Victims: d.Victims, Drainer: d.drainer}
	if d.Drain != nil {
		options.Deadline, options.Expiry, options.Interval = d.Drain.Deadline, d.Drain.OnDeadline, d.Drain.Interval
	}
	if d.cpuMetric() >= 0 {
		options.CPU = func(context.Context, targets.Ref) (map[string]int64, error) {
			if use := cpuUse.Load(); use != nil {
				return *use, nil
			}
			return nil, nil // nothing was measured yet
		}
	}
	return options
}

// cpuMetric returns the index of the metric that says how much cpu each instance
// uses, where a source feeds it; -1 when there is none.
func (d *definition) cpuMetric() int {
	for i, metric := range d.Spec.Metrics {
		if metric.Type == policy.ResourceMetric && metric.Name == "cpu" && d.inputs[i].source != nil {
			return i
		}
	}
	return -1
}

// cpuUse returns what each instance uses, in thousandths of a core by id, where victims
// are chosen by it and it was read; else nil.
func (d *definition) cpuUse(observation *policy.Observation) *map[string]int64 {
	if d.Victims != drain.LeastCPU {
		return nil
	}
	metric := d.cpuMetric()
	if metric < 0 || metric >= len(observation.Metrics) || observation.Metrics[metric].Error != "" {
		return nil
	}
	use := map[string]int64{}
	for i, sample := range observation.Metrics[metric].Samples {
		if i < len(observation.Instances) && sample.OK {
			use[observation.Instances[i].ID] = sample.Milli
		}
	}
	return &use
}

// victimsTimeout bounds how long choosing victims for an explanation may take,
// where it takes calls of a platform.
const victimsTimeout = 5 * time.Second

// chooseVictims returns whom a decision takes, as far as hpad chooses, or why that
// cannot be said: for people, who want to know before it happens. The write chooses
// again, of what there is then.
func (d *definition) chooseVictims(ctx context.Context, decision *policy.Decision, reading *targets.Reading) (victims []drain.Victim, unchosen string) {
	n := decision.CurrentReplicas - decision.DesiredReplicas
	if d.fleet.ScaleIn == nil || n <= 0 {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, victimsTimeout)
	defer cancel()
	err := trouble.Guard(func() (err error) {
		victims, err = d.fleet.ScaleIn.Victims(ctx, d.Target, *reading, n)
		return err
	})
	if err != nil {
		return nil, err.Error()
	}
	return victims, ""
}
