package policy

import "time"

// noticeForeign tells of a count that somebody else changed. The condition stays
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

// restores says whether a count that somebody else changed is put back.
func (p *pass) restores() bool {
	foreign := p.observation.Foreign
	return foreign != nil && foreign.Restore && p.observation.SpecReplicas != 0 &&
		p.restored() != p.observation.SpecReplicas
}

// restored is the count that is put back: the one the autoscaler left, within
// its bounds of today.
func (p *pass) restored() int32 {
	return min(max(p.observation.Foreign.From, p.decision.MinReplicas), p.decision.MaxReplicas)
}

// overwritten takes in that the autoscaler has written the count since somebody
// else did.
func (s *Settlement) overwritten(now time.Time) {
	if condition := findCondition(s.Status.Conditions, ForeignWriter); condition != nil && condition.Status == ConditionTrue {
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ForeignWriter, ConditionFalse, "Rescaled",
			"the autoscaler has written the count since somebody else did")
	}
}
