package round

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
)

// scaleInOptions returns the options for removing instances, which provide the CPU use of each
// instance.
func (d *Definition) scaleInOptions(cpuUse *atomic.Pointer[map[string]int64]) drain.Options {
	options := drain.Options{Victims: d.Victims, Drainer: d.Drainer}
	if d.Drain != nil {
		options.Deadline, options.Expiry, options.Interval = d.Drain.Deadline, d.Drain.OnDeadline, d.Drain.Interval
	}
	if d.cpuMetric() >= 0 {
		options.CPU = func(context.Context, targets.Ref) (map[string]int64, error) {
			if use := cpuUse.Load(); use != nil {
				return *use, nil
			}
			return nil, nil
		}
	}
	return options
}

// cpuMetric returns the index of the CPU metric that a source provides, or -1.
func (d *Definition) cpuMetric() int {
	for i, metric := range d.Spec.Metrics {
		if metric.Type == policy.ResourceMetric && metric.Name == "cpu" && d.MetricInputs[i].From != nil {
			return i
		}
	}
	return -1
}

// cpuUse returns the CPU use of each instance in thousandths of a core, by ID; nil if it is not
// needed or unknown.
func (d *Definition) cpuUse(observation *policy.Observation) *map[string]int64 {
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

// victimsTimeout is the timeout for choosing instances for display, which can call the platform.
const victimsTimeout = 5 * time.Second

// chooseVictims returns the instances that a decision would remove, if hpad chooses them, or the
// reason why they are unknown. The result is only displayed: the write chooses the instances again.
func (d *Definition) chooseVictims(ctx context.Context, decision *policy.Decision, reading *targets.Reading) (victims []drain.Victim, unchosen string) {
	n := decision.CurrentReplicas - decision.DesiredReplicas
	if d.Fleet.ScaleIn == nil || n <= 0 {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, victimsTimeout)
	defer cancel()
	err := guard.Call(func() (err error) {
		victims, err = d.Fleet.ScaleIn.Victims(ctx, d.Target, *reading, n)
		return err
	})
	if err != nil {
		return nil, err.Error()
	}
	return victims, ""
}
