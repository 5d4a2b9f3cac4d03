package policy

import "cmp"

// platformMax is the reason for a change that was limited by the platform's maximum.
const platformMax = "PlatformMax"

// clampToPlatform limits a step by the platform's own bounds (deviation). It is the last step,
// after R53. It only reduces changes: a count outside the bounds remains until the metrics or R25.4
// change it.
func (p *pass) clampToPlatform(desired int32) int32 {
	o := &p.observation
	allowed := p.platformAllows(desired)
	switch {
	case allowed < desired:
		p.boundByPlatform(platformMax, desired, allowed,
			"the desired count is more than the platform's own maximum of "+itoa(*o.PlatformMax))
	case allowed > desired:
		p.boundByPlatform("PlatformMin", desired, allowed,
			"the desired count is less than the platform's own minimum of "+itoa(*o.PlatformMin))
	}
	return allowed
}

// platformAllows limits a desired count by the platform's bounds.
func (p *pass) platformAllows(desired int32) int32 {
	current, o := p.observation.SpecReplicas, &p.observation
	switch {
	case desired > current && o.PlatformMax != nil && desired > *o.PlatformMax:
		return max(*o.PlatformMax, current)
	case desired < current && o.PlatformMin != nil && desired < *o.PlatformMin:
		return min(*o.PlatformMin, current)
	}
	return desired
}

func (p *pass) boundByPlatform(reason string, wanted, allowed int32, message string) {
	p.decision.PlatformBound = &PlatformBound{Reason: reason, Replicas: allowed, Wanted: wanted}
	p.set(ScalingLimited, ConditionTrue, reason, message)
}

func holdReason(hold *Hold) string { return cmp.Or(hold.Reason, "Held") }

// held reports whether a hold with the same reason already applied in the last pass.
func held(before []Condition, hold *Hold) bool {
	able := findCondition(before, AbleToScale)
	return able != nil && able.Status == ConditionFalse && able.Reason == holdReason(hold)
}

func (h *Hold) event() Event {
	return Event{Kind: NormalEvent, Reason: holdReason(h), Message: h.Message}
}

// Shortage is a recommendation above the allowed maximum.
type Shortage struct {
	// Wanted is the recommendation. Max is the highest allowed count.
	Wanted int32 `json:"wanted"`
	Max    int32 `json:"max"`
	// Reason is TooManyReplicas for max_replicas, and PlatformMax for the platform's maximum.
	Reason string `json:"reason"`
}

// Shortage returns the shortage of a pass. It returns nil if the recommendation is allowed, and
// while a rate limit or window keeps the count below the maximum.
func (d *Decision) Shortage() *Shortage {
	if d.Recommendation == nil {
		return nil
	}
	s := Shortage{Wanted: *d.Recommendation, Max: d.MaxReplicas, Reason: tooManyReplicas}
	if d.PlatformMax != nil && *d.PlatformMax < s.Max {
		s.Max, s.Reason = *d.PlatformMax, platformMax
	}
	if s.Wanted <= s.Max || d.DesiredReplicas < s.Max {
		return nil
	}
	return &s
}

func (s *Shortage) String() string {
	text := "wants " + itoa(s.Wanted) + ", max " + itoa(s.Max)
	if s.Reason == platformMax {
		text += " (" + platformMax + ")"
	}
	return text
}

// noticeResolved is the reason in a notice's condition after the notice ended.
const noticeResolved = "Resolved"

// own reports whether the package reserves the condition type; notices must not use it.
func (t ConditionType) own() bool {
	switch t {
	case AbleToScale, ScalingActive, ScalingLimited, ScaledToZero, ForeignWriter, Paused, ExternalMetricFallbackActive:
		return true
	}
	return false
}

// noticePlatform sets a condition for each notice, with an event when the notice first appears.
// Notices do not affect the count.
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
			p.set(condition.Type, ConditionFalse, noticeResolved, "the platform no longer reports it")
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
