package policy

import (
	"slices"
	"time"
)

// WindowRules are the windows of the recommendation list (R55, R61, R63).
type WindowRules struct {
	// Behavior selects R63 instead of R55.
	Behavior bool `json:"behavior"`
	// Up is the scale-up window, with Behavior only.
	Up   time.Duration `json:"up"`
	Down time.Duration `json:"down"`
}

// RulesFor returns the windows of a defaulted spec (R61).
func RulesFor(settings Settings, spec Spec) WindowRules {
	behavior := spec.Behavior
	if behavior == nil {
		return WindowRules{Down: settings.DownscaleStabilization}
	}
	rules := WindowRules{Behavior: true, Down: settings.DownscaleStabilization.Truncate(time.Second)}
	if up := behavior.ScaleUp; up != nil && up.StabilizationWindowSeconds != nil {
		rules.Up = seconds(*up.StabilizationWindowSeconds)
	}
	if down := behavior.ScaleDown; down != nil && down.StabilizationWindowSeconds != nil {
		rules.Down = seconds(*down.StabilizationWindowSeconds)
	}
	return rules
}

// Remember returns the recommendation list after a pass: the last old entry is overwritten, or
// a new one is appended (R55, R63). The argument is not modified.
func Remember(rules WindowRules, list []Recommendation, replicas int32, now time.Time) []Recommendation {
	cutoff := now.Add(-rules.longest())
	slot := len(list)
	for i := range slices.Backward(list) {
		if list[i].Time.Before(cutoff) {
			slot = i
			break
		}
	}
	next := make([]Recommendation, max(len(list), slot+1))
	copy(next, list)
	next[slot] = Recommendation{Replicas: replicas, Time: now}
	return next
}

// longest is the age of an old recommendation: strictly before the cutoff (R55), or before both
// cutoffs (R63).
func (r WindowRules) longest() time.Duration {
	if r.Behavior {
		return max(r.Up, r.Down)
	}
	return r.Down
}

// initialRecommendations returns the list of a new autoscaler (R25.3).
func initialRecommendations(list []Recommendation, current int32, now time.Time) []Recommendation {
	if len(list) > 0 {
		return slices.Clip(list)
	}
	return []Recommendation{{Replicas: current, Time: now}}
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
