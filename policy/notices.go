package policy

// noticeResolved is the reason after a notice has ended.
const noticeResolved = "Resolved"

// own reports whether notices may not use the condition type.
func (t ConditionType) own() bool {
	switch t {
	case AbleToScale, ScalingActive, ScalingLimited, ScaledToZero, ForeignWriter, Paused, ExternalMetricFallbackActive:
		return true
	}
	return false
}

// noticePlatform sets a condition for each notice, with an event at its start. It does not
// affect the count.
func (p *pass) noticePlatform() {
	for i := range p.observation.Notices {
		notice := &p.observation.Notices[i]
		if notice.Condition == "" || notice.Condition.own() {
			continue
		}
		p.decision.Notices = append(p.decision.Notices, *notice)
		if before := findCondition(p.status.Conditions, notice.Condition); before == nil || before.Status != ConditionTrue {
			p.warn(string(notice.Condition), notice.Message)
		}
		p.set(notice.Condition, ConditionTrue, notice.Reason, notice.Message)
	}
	for i := range p.status.Conditions {
		condition := &p.status.Conditions[i]
		if condition.Status == ConditionTrue && !condition.Type.own() && !p.notices(condition.Type) {
			p.set(condition.Type, ConditionFalse, noticeResolved, "the platform no longer says so")
		}
	}
}

func (p *pass) notices(kind ConditionType) bool {
	for i := range p.decision.Notices {
		if p.decision.Notices[i].Condition == kind {
			return true
		}
	}
	return false
}
