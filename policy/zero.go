package policy

// fromZero reports whether the autoscaler itself, and not a person, scaled the
// target to zero (R50).
func (p *pass) fromZero() bool {
	if !p.settings.ScaleToZero {
		return false
	}
	condition := findCondition(p.status.Conditions, ScaledToZero)
	return condition != nil && condition.Status == ConditionTrue
}

// computesAtZero reports whether metrics are computed for a target of no replicas
// (R51).
func (p *pass) computesAtZero() bool {
	return p.fromZero() && (p.decision.MinReplicas != 0 || hasWholeMetric(&p.spec))
}

// scalingDisabled is the reason of ScalingActive while the autoscaler is off.
const scalingDisabled = "ScalingDisabled"

// Disabled reports whether the autoscaler is off because its target has 0 replicas
// that it did not set itself (R51). It stays off until somebody else raises the
// count.
func (s *Status) Disabled() bool {
	active := findCondition(s.Conditions, ScalingActive)
	return active != nil && active.Status == ConditionFalse && active.Reason == scalingDisabled
}

// disable ends a pass over a target that a person scaled to zero: implicit
// maintenance mode (R51).
func (p *pass) disable() {
	d := &p.decision
	d.Case = CaseDisabled
	p.forgetMissing()
	d.Message = "no change: the target has 0 replicas, which were not set by this autoscaler; scale it up by hand to resume"
	p.set(ScalingActive, ConditionFalse, scalingDisabled, "scaling is disabled since the replica count of the target is zero")
	if !p.settings.ScaleToZero {
		d.Status.Conditions = removeCondition(d.Status.Conditions, ScaledToZero)
	}
}

// raiseFromZero lifts a count that was computed from the autoscaler's own zero
// to the lower bound (R53).
func (p *pass) raiseFromZero(desired int32) int32 {
	d := &p.decision
	if d.CurrentReplicas != 0 || d.MinReplicas == 0 || desired >= d.MinReplicas || !p.fromZero() {
		return desired
	}
	d.RaisedToMin = true
	if d.Reason == NoReason {
		d.Reason = BelowMin
	}
	return d.MinReplicas
}
