package config

import (
	"math"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// behaviorTable is the TOML table [autoscalers.NAME.behavior].
type behaviorTable struct {
	// ScaleUp and ScaleDown contain the rules of one direction. If the table exists, even empty,
	// both are defaulted.
	ScaleUp   *rulesTable `toml:"scale_up"`
	ScaleDown *rulesTable `toml:"scale_down"`
}

// rulesTable holds the rules for one direction.
type rulesTable struct {
	// StabilizationWindow is the period over which recommendations are stabilized: whole seconds, 0
	// to 1h; the default for scale_down is the daemon's downscale_stabilization.
	StabilizationWindow *time.Duration `toml:"stabilization_window"`
	// SelectPolicy selects the policy that applies: "Max", the policy with the largest change;
	// "Min", the policy with the smallest change; or "Disabled", no change in this direction.
	SelectPolicy policy.SelectPolicy `toml:"select_policy"`
	// Policies limit the rate of change, at least one; by default, 4 instances or 100 % in 15
	// seconds for scale_up, and 100 % in 15 seconds for scale_down. A list replaces the whole
	// default list.
	Policies []policyTable `toml:"policies"`
	// Tolerance replaces the daemon's tolerance in this direction; at least 0.
	Tolerance *ratio `toml:"tolerance"`
}

// policyTable is one scaling policy.
type policyTable struct {
	// Type is "Instances" (also "Pods") or "Percent".
	Type string `toml:"type"`
	// Value is the maximum change in one period, as a number of instances or a percentage of the
	// count; greater than 0.
	Value int32 `toml:"value"`
	// Period is the time in which Value limits changes: whole seconds, 1s to 30m.
	Period time.Duration `toml:"period"`
}

func (b behaviorTable) spec(t *table) *policy.Behavior {
	return &policy.Behavior{
		ScaleUp:   b.ScaleUp.spec(t, "behavior.scale_up"),
		ScaleDown: b.ScaleDown.spec(t, "behavior.scale_down"),
	}
}

func (r *rulesTable) spec(t *table, path string) *policy.ScalingRules {
	if r == nil {
		return nil
	}
	rules := &policy.ScalingRules{SelectPolicy: r.SelectPolicy}
	if r.StabilizationWindow != nil {
		rules.StabilizationWindowSeconds = new(t.seconds(under(path, "stabilization_window"), *r.StabilizationWindow))
	}
	if r.Policies != nil { // R12: an empty list differs from an omitted one
		rules.Policies = make([]policy.ScalingPolicy, len(r.Policies))
	}
	for i, p := range r.Policies {
		at := element(under(path, "policies"), i)
		rules.Policies[i] = policy.ScalingPolicy{
			Type:          policy.PolicyType(p.Type),
			Value:         p.Value,
			PeriodSeconds: t.seconds(under(at, "period"), p.Period),
		}
		if p.Type == podsAlias {
			rules.Policies[i].Type = policy.InstancesPolicy
		}
	}
	if r.Tolerance != nil {
		rules.Tolerance = new(float64(*r.Tolerance))
	}
	return rules
}

// seconds converts a duration to whole seconds and records an error if it has a fraction. Values
// that do not fit are clamped, so that policy reports them as out of bounds. Fractions are rounded
// away from zero, so that policy does not also report them as out of bounds.
func (t *table) seconds(key string, span time.Duration) int32 {
	if span%time.Second != 0 {
		t.addWritten(key, settings.WholeSeconds)
	}
	whole := span / time.Second
	if span%time.Second > 0 {
		whole++
	}
	return int32(max(math.MinInt32, min(math.MaxInt32, whole)))
}
