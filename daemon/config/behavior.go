package config

import (
	"math"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// behaviorTable is [autoscalers.NAME.behavior] as it is written.
type behaviorTable struct {
	// ScaleUp are the rules of going up, ScaleDown of going down. Once the table is
	// there, even empty, both are filled in.
	ScaleUp   *rulesTable `toml:"scale_up"`
	ScaleDown *rulesTable `toml:"scale_down"`
}

// rulesTable is one direction's rules as they are written.
type rulesTable struct {
	// StabilizationWindow is how long a recommendation holds the count: whole seconds,
	// 0 to 1h; left out for going down, the daemon's downscale_stabilization.
	StabilizationWindow *time.Duration `toml:"stabilization_window"`
	// SelectPolicy says which of the policies counts: the one that changes most,
	// least, or none at all.
	SelectPolicy policy.SelectPolicy `toml:"select_policy"`
	// Policies bound how fast the count moves, at least one; left out, 4 instances or
	// 100 % in 15 seconds for going up, and 100 % in 15 seconds for going down. A list
	// replaces the default one whole.
	Policies []policyTable `toml:"policies"`
	// Tolerance takes the place of the daemon's in this direction; at least 0.
	Tolerance *ratio `toml:"tolerance"`
}

// policyTable is one scaling policy as it is written.
type policyTable struct {
	// Type is "Instances" (also "Pods") or "Percent".
	Type string `toml:"type"`
	// Value is how many, or how many percent of the count, in one period; greater than
	// 0.
	Value int32 `toml:"value"`
	// Period is the span that Value is for: whole seconds, 1s to 30m.
	Period time.Duration `toml:"period"`
}

// spec returns the behavior for policy, recording spans that are not whole
// seconds.
func (b behaviorTable) spec(t *table) *policy.Behavior {
	return &policy.Behavior{
		ScaleUp:   b.ScaleUp.spec(t, "behavior.scale_up"),
		ScaleDown: b.ScaleDown.spec(t, "behavior.scale_down"),
	}
}

// spec returns one direction's rules for policy, and nil for nil.
func (r *rulesTable) spec(t *table, path string) *policy.ScalingRules {
	if r == nil {
		return nil
	}
	rules := &policy.ScalingRules{SelectPolicy: r.SelectPolicy}
	if r.StabilizationWindow != nil {
		rules.StabilizationWindowSeconds = new(t.seconds(under(path, "stabilization_window"), *r.StabilizationWindow))
	}
	if r.Policies != nil { // R12: an empty list is not an absent one
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

// rulesTableOf returns one direction's rules as they would be written, and nil for
// nil.
func rulesTableOf(rules *policy.ScalingRules) *rulesTable {
	if rules == nil {
		return nil
	}
	r := &rulesTable{SelectPolicy: rules.SelectPolicy, Tolerance: (*ratio)(rules.Tolerance)}
	if window := rules.StabilizationWindowSeconds; window != nil {
		r.StabilizationWindow = new(time.Duration(*window) * time.Second)
	}
	for _, p := range rules.Policies {
		r.Policies = append(r.Policies, policyTable{Type: string(p.Type), Value: p.Value, Period: time.Duration(p.PeriodSeconds) * time.Second})
	}
	return r
}

// seconds returns a span in seconds, recording one that is not whole. What does
// not fit saturates and is out of bounds for policy. A fraction is rounded away
// from zero, so that it is not out of bounds as well.
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
