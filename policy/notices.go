package policy

// noticeResolved is the reason of a notice's condition once the platform no
// longer says it.
const noticeResolved = "Resolved"

// own reports whether the algorithm sets conditions of this type itself, so that no
// notice may.
func (t ConditionType) own() bool {
	switch t {
	case AbleToScale, ScalingActive, ScalingLimited, ScaledToZero, ForeignWriter, Paused, ExternalMetricFallbackActive:
		return true
	}
	return false
}

// noticePlatform makes conditions of what else the platform says of the target:
// True while it is said, False after. An event marks that one begins. Nothing
// here bears on the count.
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

// notices reports whether the platform says something of this type now.
func (p *pass) notices(kind ConditionType) bool {
	for i := range p.decision.Notices {
		if p.decision.Notices[i].Condition == kind {
			return true
		}
	}
	return false
}
