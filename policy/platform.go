package policy

import "cmp"

// platformMax is the reason of a step that the platform's maximum shortened.
const platformMax = "PlatformMax"

// clampToPlatform limits a step by the platform's own bounds (deviation). It is the last step,
// after R53. It only shortens steps: a target outside of the bounds stays until the metrics, or
// R25.4, move it.
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

// held reports whether the last pass was held for the same reason.
func held(before []Condition, hold *Hold) bool {
	able := findCondition(before, AbleToScale)
	return able != nil && able.Status == ConditionFalse && able.Reason == holdReason(hold)
}

func (h *Hold) event() Event {
	return Event{Kind: NormalEvent, Reason: holdReason(h), Message: h.Message}
}
