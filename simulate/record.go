package simulate

import (
	"github.com/hpad/hpad/policy"
)

// Record returns the tick of a pass: the inputs of its decision, the decision, and the outcome of
// its write. dryRun reports whether hpad never writes. rejected reports whether hpad rejected the
// reading of the target, so that the pass has not changed the memory.
func Record(in *policy.Inputs, decision *policy.Decision, outcome policy.Outcome, dryRun, rejected bool) Tick {
	o := &in.Observation
	if o.ReadError != "" || rejected {
		return Tick{Time: in.Now, Replicas: Unknown, Desired: Unknown, Observed: Unknown, Ready: Unknown}
	}
	tick := Tick{
		Time: in.Now, Replicas: o.SpecReplicas, Desired: decision.DesiredReplicas, Observed: o.StatusReplicas,
		Ready: policy.RunningAndReady(o.Instances), Outage: len(o.Instances) > 0 && !policy.MayServe(o.Instances),
		Prevented: prevented(in, outcome, dryRun), PlatformMin: o.PlatformMin, PlatformMax: o.PlatformMax,
	}
	if decision.Case != policy.CaseMetrics {
		tick.Case = decision.Case
	}
	if outcome.Kind == policy.Written && outcome.Reached != decision.DesiredReplicas {
		tick.Reached = &outcome.Reached
	}
	if o.Command != nil && (outcome.Kind == policy.Written || !decision.Write) {
		tick.Command = o.Command
	}
	for i := range o.Metrics {
		if in.Spec.Metrics[i].Formula == "" {
			tick.Readings = append(tick.Readings, recordReading(in, i))
		}
	}
	return tick
}

// prevented returns the direction of the changes that the pass could not make.
func prevented(in *policy.Inputs, outcome policy.Outcome, dryRun bool) policy.Direction {
	if dryRun || in.Observation.Hold != nil || outcome.Kind == policy.WriteFailed || outcome.Kind == policy.WriteHeld {
		return policy.BothDirections
	}
	direction := policy.Direction("")
	for _, pauses := range [][]policy.Pause{in.Observation.Pauses, in.Meanwhile} {
		for i := range pauses {
			if direction == "" || direction == pauses[i].Direction {
				direction = pauses[i].Direction
				continue
			}
			return policy.BothDirections
		}
	}
	return direction
}

func recordReading(in *policy.Inputs, i int) Reading {
	metric, o := &in.Spec.Metrics[i], &in.Observation
	reading := &o.Metrics[i]
	recorded := Reading{Partial: reading.Partial != ""}
	switch {
	case reading.Error != "":
		recorded.Missing = true
	case metric.Type == policy.ObjectMetric && reading.ValueMilli != nil:
		recorded.Milli = *reading.ValueMilli
	case metric.Type == policy.ExternalMetric && len(reading.ValuesMilli) > 0:
		recorded.Milli = policy.ExternalTotal(metric, reading.ValuesMilli)
	case metric.Type == policy.ObjectMetric || metric.Type == policy.ExternalMetric:
		recorded.Missing = true
	default:
		usage, ok := policy.SumUsage(in.Settings, metric, o.Instances, reading, in.Now)
		recorded.Missing = !ok
		if ok {
			recorded.Milli, recorded.Groups, recorded.Requests = usage.Milli, &usage.Groups, usage.Requests
		}
	}
	return recorded
}
