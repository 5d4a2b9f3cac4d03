package policy

import "time"

// noReadyInstance is the reason in the condition ScalingLimited while an outage holds the count.
const noReadyInstance = "NoReadyInstance"

// Outage is a proposal of the metrics that was raised to the current count, because no instance is
// ready (deviation).
type Outage struct {
	// Since is the first pass without a ready instance, and Until is when the metrics may lower the
	// count again.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Proposed is the count that the metrics propose.
	Proposed int32 `json:"proposed"`
}

// followOutage updates the start of an outage. Without a list of instances, an outage neither
// starts nor ends.
func (p *pass) followOutage() {
	d, o := &p.decision, &p.observation
	switch since := &d.Memory.NoReadySince; {
	case p.settings.OutageHold <= 0, o.SpecReplicas == 0, MayServe(o.Instances):
		*since = time.Time{}
	case since.IsZero() && len(o.Instances) > 0:
		*since = p.now
	}
	// A pass without a recommendation does not set the condition.
	if limited := findCondition(p.status.Conditions, ScalingLimited); limited != nil && limited.Reason == noReadyInstance && !p.inOutage() {
		p.set(ScalingLimited, ConditionFalse, desiredWithinRange, limitMessages[desiredWithinRange])
	}
}

// MayServe reports whether an instance is ready. It also returns true if the platform does not
// report readiness.
func MayServe(instances []Instance) bool {
	reported := len(instances) == 0
	for i := range instances {
		instance := &instances[i]
		reported = reported || instance.Readiness != ReadinessNotKnown
		if instance.Phase == PhaseRunning && !instance.Deleting && (instance.Readiness == ReadinessTrue || instance.Readiness == ReadinessNotKnown) {
			return true
		}
	}
	return !reported
}

// inOutage reports whether an outage prevents the metrics from lowering the count.
func (p *pass) inOutage() bool {
	since := p.decision.Memory.NoReadySince
	return !since.IsZero() && p.now.Before(since.Add(p.settings.OutageHold))
}

// recommend sets and returns the recommendation of the metrics (R25.5). An outage raises it to the
// current count.
func (p *pass) recommend() Recommendation {
	d := &p.decision
	entry := Recommendation{Replicas: max(0, *d.Raw), Time: p.now}
	if entry.Replicas < d.CurrentReplicas && p.inOutage() {
		since := d.Memory.NoReadySince
		d.Outage = &Outage{Since: since, Until: since.Add(p.settings.OutageHold), Proposed: entry.Replicas}
		entry.Replicas, entry.Held = d.CurrentReplicas, true
	}
	d.Recommendation = &entry.Replicas
	return entry
}

// reportOutage sets ScalingLimited if the outage is the last step that changed the recommendation.
func (p *pass) reportOutage() {
	if d := &p.decision; d.Outage != nil && !d.Limit.Limited {
		p.set(ScalingLimited, ConditionTrue, noReadyInstance, p.describeOutage())
	}
}

func (p *pass) describeOutage() string {
	return "no instance is ready, and the metrics do not lower the count for " + p.settings.OutageHold.String() + " (outage_hold)"
}

// within returns the count of an earlier recommendation for a target with the current count. A held
// one prevents a scale-down, but never raises the count, for example after an operator lowered it.
func (r *Recommendation) within(current int32) int32 {
	if r.Held {
		return min(r.Replicas, current)
	}
	return r.Replicas
}
