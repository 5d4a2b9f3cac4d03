package policy

import "time"

// noticeForeign adds the event of a count that somebody else changed. The condition stays
// until the autoscaler writes the count again.
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

// noticeRestored drops a count that is to be put back and that is there already,
// or as near as the platform lets it come. A count of 0 drops it too: who sets
// that switches the autoscaler off (R51).
func (p *pass) noticeRestored() {
	d := &p.decision
	if d.Restore != nil && (d.CurrentReplicas == 0 || p.platformAllows(p.restored()) == d.CurrentReplicas) {
		d.Restore = nil
	}
}

// restore puts the count back that somebody else changed, which is no rule of
// upstream's. The metrics have no say in it. What they ask for is remembered all
// the same, because a hold may keep the count from being put back for longer than
// the windows are.
func (p *pass) restore() {
	p.remember()
	p.force(CaseRestored, ForeignChanged, p.restored())
}

// remember evaluates the metrics and remembers what they ask for, in a pass in which they
// have no say.
func (p *pass) remember() {
	d := &p.decision
	p.evaluateMetrics()
	if p.combineMetrics() {
		recommended := max(0, *d.Raw)
		d.Recommendation = &recommended
		d.Memory.Recommendations = Remember(RulesFor(p.settings, p.spec), d.Memory.Recommendations, recommended, p.now)
	}
}

// restored is the count that is put back, within the bounds of today.
func (p *pass) restored() int32 {
	return min(max(p.decision.Restore.Replicas, p.decision.MinReplicas), p.decision.MaxReplicas)
}

// overwritten applies that the autoscaler has written the count since somebody
// else did.
func (s *Settlement) overwritten(now time.Time) {
	if condition := findCondition(s.Status.Conditions, ForeignWriter); condition != nil && condition.Status == ConditionTrue {
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ForeignWriter, ConditionFalse, "Rescaled",
			"the autoscaler has written the count since somebody else did")
	}
}
