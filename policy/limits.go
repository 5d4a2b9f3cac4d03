package policy

import "time"

// The reasons in the condition ScalingLimited (R77).
const (
	desiredWithinRange = "DesiredWithinRange"
	tooFewReplicas     = "TooFewReplicas"
	tooManyReplicas    = "TooManyReplicas"
	scaleUpLimited     = "ScaleUpLimit"
	scaleDownLimited   = "ScaleDownLimit"
)

// limitWithoutBehavior implements R57.
func (p *pass) limitWithoutBehavior(step *Limit, stabilized int32) {
	d := &p.decision
	rate := doubled(d.CurrentReplicas)
	upper := min(d.MaxReplicas, rate)
	step.Replicas, step.Reason = stabilized, desiredWithinRange
	switch {
	case stabilized < d.MinReplicas:
		step.Allowed, step.Replicas, step.Reason = d.MinReplicas, d.MinReplicas, tooFewReplicas
	case stabilized > upper:
		step.Allowed, step.Replicas, step.Reason = upper, upper, tooManyReplicas
		if d.MaxReplicas > rate {
			step.Reason = scaleUpLimited
		}
	case stabilized < d.CurrentReplicas:
		step.Allowed = d.MinReplicas
	default:
		step.Allowed = upper
	}
	if stabilized > d.CurrentReplicas {
		step.Rate = &rate
	}
	step.Limited = step.Replicas != stabilized
}

// limitWithBehavior implements R69.
func (p *pass) limitWithBehavior(step *Limit, stabilized int32) {
	d := &p.decision
	current := d.CurrentReplicas
	step.Allowed, step.Replicas, step.Reason = stabilized, stabilized, desiredWithinRange
	switch {
	case stabilized > current:
		rate := max(p.scaleUpRate(step), current)
		step.Rate, step.Allowed = &rate, min(d.MaxReplicas, rate)
		if stabilized > step.Allowed {
			step.Replicas, step.Reason = step.Allowed, tooManyReplicas
			if d.MaxReplicas > rate {
				step.Reason = scaleUpLimited
			}
		}
	case stabilized < current:
		rate := min(p.scaleDownRate(step), current)
		step.Rate, step.Allowed = &rate, max(d.MinReplicas, rate)
		if stabilized < step.Allowed {
			step.Replicas, step.Reason = step.Allowed, tooFewReplicas
			if d.MinReplicas < rate {
				step.Reason = scaleDownLimited
			}
		}
	}
	step.Limited = step.Replicas != stabilized
}

// scaleUpRate returns the count that the scale-up policies allow (R67).
func (p *pass) scaleUpRate(step *Limit) int32 {
	rules := p.spec.Behavior.ScaleUp
	return p.selectRate(step, rules, 1, func(policy *ScalingPolicy, start int32) int32 {
		if policy.Type == PercentPolicy {
			return ceilToInt32(float64(start) * (1 + float64(policy.Value)/100)) // R70
		}
		return start + policy.Value // wraps (R67)
	})
}

// scaleDownRate returns the count that the scale-down policies allow (R68).
func (p *pass) scaleDownRate(step *Limit) int32 {
	rules := p.spec.Behavior.ScaleDown
	return p.selectRate(step, rules, -1, func(policy *ScalingPolicy, start int32) int32 {
		if policy.Type == PercentPolicy {
			return truncateToInt32(float64(start) * (1 - float64(policy.Value)/100)) // R70
		}
		return start - policy.Value // wraps, like the sum of R67
	})
}

// selectRate returns the limit of the selected policy (R67, R68), or the current count if the
// direction is disabled. sign is 1 for scale-up and -1 for scale-down: the largest change is the
// largest limit when scaling up, and the smallest limit when scaling down.
func (p *pass) selectRate(step *Limit, rules *ScalingRules, sign int64, limitOf func(*ScalingPolicy, int32) int32) int32 {
	if rules == nil || rules.SelectPolicy == DisabledChange || len(rules.Policies) == 0 {
		return p.decision.CurrentReplicas
	}
	if rules.SelectPolicy == MinChange {
		sign = -sign
	}
	var best int32
	for i := range rules.Policies {
		policy := &rules.Policies[i]
		start := p.periodStart(policy)
		limit := limitOf(policy, start)
		if i == 0 || sign*(int64(limit)-int64(best)) > 0 {
			best = limit
			step.Policy, step.PeriodStart = policy, start
		}
	}
	return best
}

// periodStart returns the count at the start of a policy's period, in 32-bit arithmetic (R65, R66).
func (p *pass) periodStart(policy *ScalingPolicy) int32 {
	cutoff := p.now.Add(-seconds(policy.PeriodSeconds))
	memory := &p.decision.Memory
	return p.decision.CurrentReplicas - changeSince(memory.ScaleUpEvents, cutoff) + changeSince(memory.ScaleDownEvents, cutoff)
}

// changeSince returns the sum of the changes after a cutoff, including outdated entries (R65).
func changeSince(events []ScaleEvent, cutoff time.Time) (sum int32) {
	for i := range events {
		if events[i].Time.After(cutoff) {
			sum += events[i].Change
		}
	}
	return sum
}

// reportLimit sets ScalingLimited (R58).
func (p *pass) reportLimit(step *Limit) {
	status := ConditionFalse
	if step.Limited {
		status = ConditionTrue
	}
	p.set(ScalingLimited, status, step.Reason, limitMessages[step.Reason])
}

var limitMessages = map[string]string{
	desiredWithinRange: "the desired count is within the acceptable range",
	modeUpOnlyReason:   `the autoscaler's mode is "up-only"`,
	modeDownOnlyReason: `the autoscaler's mode is "down-only"`,
	tooFewReplicas:     "the desired count is less than the minimum",
	tooManyReplicas:    "the desired count is more than the maximum",
	scaleUpLimited:     "the desired count is increasing faster than the maximum scale rate",
	scaleDownLimited:   "the desired count is decreasing faster than the maximum scale rate",
}
