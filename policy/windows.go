package policy

import (
	"slices"
	"time"
)

// WindowRules are what the upkeep of the recommendation list needs of settings
// and spec (R55, R61, R63), small enough to be kept beside the list.
type WindowRules struct {
	// Behavior selects R63 when true and R55 when false.
	Behavior bool `json:"behavior"`
	// Up is the scale-up window; it plays no part without Behavior.
	Up time.Duration `json:"up"`
	// Down is the scale-down window.
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

// Remember returns the recommendation list after a pass at now recommended
// replicas: the last old entry is overwritten, or a new one is appended (R55
// without behavior, R63 with it). It never modifies list and never returns a
// part of it.
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

// longest is the window after which a recommendation is old: strictly before
// the cutoff (R55), or before both cutoffs (R63).
func (r WindowRules) longest() time.Duration {
	if r.Behavior {
		return max(r.Up, r.Down)
	}
	return r.Down
}

// initialRecommendations is the list of an autoscaler that has none yet (R25.3).
func initialRecommendations(list []Recommendation, current int32, now time.Time) []Recommendation {
	if len(list) > 0 {
		return slices.Clip(list)
	}
	return []Recommendation{{Replicas: current, Time: now}}
}

// seconds is a whole number of seconds as a duration.
func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
