package policy

import "time"

// noticeForeign reports a manual change. The condition stays until the autoscaler writes the
// count.
func (p *pass) noticeForeign() {
	foreign := p.observation.Foreign
	if foreign == nil {
		return
	}
	noticed := *foreign
	p.decision.Foreign = &noticed
	message := "somebody else changed the count from " + itoa(foreign.From) + " to " + itoa(p.observation.SpecReplicas)
	p.warn(string(ForeignWriter), message)
	p.set(ForeignWriter, ConditionTrue, "CountChanged", message)
}

// noticeRestored ends a restoration that is complete, as far as the platform allows it, or that
// an operator ended by scaling to 0 (R51).
func (p *pass) noticeRestored() {
	d := &p.decision
	if d.Restore != nil && (d.CurrentReplicas == 0 || p.platformAllows(p.restored()) == d.CurrentReplicas) {
		d.Restore = nil
	}
}

// restore reverts a manual change (deviation). Recommendations are stored, because a hold may
// delay the restoration for longer than the windows.
func (p *pass) restore() {
	p.remember()
	p.force(CaseRestored, ForeignChanged, p.restored())
}

// remember stores the recommendation of the metrics in a pass that does not use it.
func (p *pass) remember() {
	d := &p.decision
	p.evaluateMetrics()
	if p.combineMetrics() {
		recommended := max(0, *d.Raw)
		d.Recommendation = &recommended
		d.Memory.Recommendations = Remember(RulesFor(p.settings, p.spec), d.Memory.Recommendations, recommended, p.now)
	}
}

// restored is the count to restore, within the current bounds.
func (p *pass) restored() int32 {
	return min(max(p.decision.Restore.Replicas, p.decision.MinReplicas), p.decision.MaxReplicas)
}

// overwritten ends the ForeignWriter condition after a write.
func (s *Settlement) overwritten(now time.Time) {
	if condition := findCondition(s.Status.Conditions, ForeignWriter); condition != nil && condition.Status == ConditionTrue {
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ForeignWriter, ConditionFalse, "Rescaled",
			"the autoscaler has written the count since somebody else did")
	}
}
