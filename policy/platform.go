package policy

import "cmp"

// platformMax is the reason of a step that the platform's own maximum shortened.
const platformMax = "PlatformMax"

// clampToPlatform shortens a step so that it ends inside the bounds that the
// platform itself enforces. It is the last step of a pass, after R53, and no
// rule of upstream's. It only ever shortens: it never turns a direction, never
// makes a step longer than rates and bounds allowed, and never moves a count
// that was to stay. A target that is outside of its platform's bounds is thus
// left where it is until the metrics, or R25.4, move it; it is then moved no
// further than those say, even if that does not reach the bounds yet.
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

// platformAllows is how far the platform's own bounds let the count go towards a
// desired one.
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

// boundByPlatform records that a bound of the platform shortened the step.
func (p *pass) boundByPlatform(reason string, wanted, allowed int32, message string) {
	p.decision.PlatformBound = &PlatformBound{Reason: reason, Replicas: allowed, Wanted: wanted}
	p.set(ScalingLimited, ConditionTrue, reason, message)
}

// holdReason is the reason of AbleToScale under a hold.
func holdReason(hold *Hold) string { return cmp.Or(hold.Reason, "Held") }

// held reports whether an earlier pass was held for the same reason.
func held(before []Condition, hold *Hold) bool {
	able := findCondition(before, AbleToScale)
	return able != nil && able.Status == ConditionFalse && able.Reason == holdReason(hold)
}

// event is that a hold begins. It is not a failure: most end by themselves.
func (h *Hold) event() Event {
	return Event{Kind: NormalEvent, Reason: holdReason(h), Message: h.Message}
}
