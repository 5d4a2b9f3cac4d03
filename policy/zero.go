package policy

// fromZero reports whether the autoscaler scaled the target to zero (R50).
func (p *pass) fromZero() bool {
	if !p.settings.ScaleToZero {
		return false
	}
	condition := findCondition(p.status.Conditions, ScaledToZero)
	return condition != nil && condition.Status == ConditionTrue
}

// computesAtZero reports whether metrics are evaluated with zero replicas (R51).
func (p *pass) computesAtZero() bool {
	return p.fromZero() && (p.decision.MinReplicas != 0 || hasWholeMetric(&p.spec))
}

const scalingDisabled = "ScalingDisabled"

// Disabled reports whether an operator has scaled the target to zero (R51). The autoscaler
// continues after a manual scale-up.
func (s *Status) Disabled() bool {
	active := findCondition(s.Conditions, ScalingActive)
	return active != nil && active.Status == ConditionFalse && active.Reason == scalingDisabled
}

// disable ends a pass over a target that an operator scaled to zero (R51).
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

// raiseFromZero raises a count to the lower bound after the autoscaler's own zero (R53).
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
