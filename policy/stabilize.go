package policy

import (
	"math"
	"slices"
	"time"
)

// The reasons in the condition AbleToScale (R56, R64).
const (
	readyForNewScale    = "ReadyForNewScale"
	scaleDownStabilized = "ScaleDownStabilized"
	scaleUpStabilized   = "ScaleUpStabilized"
)

// stabilize applies the window to a recommendation and stores the recommendation (R55, R56, R61
// to R64).
func (p *pass) stabilize(recommendation Recommendation) int32 {
	d, recommended := &p.decision, recommendation.Replicas
	rules := RulesFor(p.settings, p.spec)
	list := d.Memory.Recommendations
	step := &Stabilization{UpWindow: rules.Up, DownWindow: rules.Down}
	if rules.Behavior {
		p.stabilizeWithBehavior(step, rules, list, recommended)
	} else {
		p.stabilizeDown(step, rules, list, recommended)
	}
	d.Stabilization = step
	d.Memory.Recommendations = Remember(rules, list, recommendation)
	switch step.Reason {
	case scaleDownStabilized:
		p.ableToScale(scaleDownStabilized, "recent recommendations were higher than the current one, the highest in the window applies")
	case scaleUpStabilized:
		p.ableToScale(scaleUpStabilized, "recent recommendations were lower than the current one, the lowest in the window applies")
	default:
		p.ableToScale(readyForNewScale, "earlier recommendations do not change the current one")
	}
	return step.Replicas
}

// stabilizeDown implements R55 and R56, with one window for both directions.
func (p *pass) stabilizeDown(step *Stabilization, rules WindowRules, list []Recommendation, recommended int32) {
	cutoff := p.now.Add(-rules.Down)
	step.Replicas, step.Reason = recommended, readyForNewScale
	var binding *Recommendation
	for i := range list {
		entry := &list[i]
		if entry.Time.Before(cutoff) {
			continue
		}
		replicas := entry.within(p.decision.CurrentReplicas)
		if p.observation.Finite { // ended instances are not replaced because of earlier load
			replicas = min(replicas, p.decision.CurrentReplicas)
		}
		if replicas > step.Replicas || binding != nil && replicas == step.Replicas && entry.Time.After(binding.Time) {
			step.Replicas, binding = replicas, entry
		}
	}
	if step.Replicas != recommended {
		step.Reason = scaleDownStabilized
		bind(step, binding, rules.Down)
	}
}

// stabilizeWithBehavior implements R62 and R64.
func (p *pass) stabilizeWithBehavior(step *Stabilization, rules WindowRules, list []Recommendation, recommended int32) {
	current := p.decision.CurrentReplicas
	lowest := extreme{replicas: recommended, cutoff: p.now.Add(-rules.Up)}
	highest := extreme{replicas: recommended, cutoff: p.now.Add(-rules.Down)}
	for i := range list {
		replicas := list[i].within(current)
		lowest.add(&list[i], replicas, replicas < lowest.replicas)
		highest.add(&list[i], replicas, replicas > highest.replicas)
	}
	step.Replicas = min(max(current, lowest.replicas), highest.replicas)
	switch {
	case step.Replicas == recommended:
		step.Reason = readyForNewScale
	case recommended >= current:
		step.Reason = scaleUpStabilized
	default:
		step.Reason = scaleDownStabilized
	}
	switch {
	case step.Replicas < recommended:
		bind(step, lowest.entry, rules.Up)
	case step.Replicas > recommended:
		bind(step, highest.entry, rules.Down)
	}
}

// extreme is the lowest or highest recommendation in a window. If several are equal, it is the
// newest.
type extreme struct {
	replicas int32
	cutoff   time.Time
	// entry is nil if the current recommendation is the extreme.
	entry *Recommendation
}

// add replaces the extreme with an earlier recommendation in the window, if that recommendation
// exceeds the extreme, or has the same count and is newer.
func (e *extreme) add(entry *Recommendation, replicas int32, exceeds bool) {
	newer := e.entry != nil && replicas == e.replicas && entry.Time.After(e.entry.Time)
	if entry.Time.After(e.cutoff) && (exceeds || newer) {
		e.replicas, e.entry = replicas, entry
	}
}

func bind(step *Stabilization, entry *Recommendation, window time.Duration) {
	if entry == nil {
		return
	}
	binding := *entry // a copy, so the list can be freed
	step.Binding = &binding
	step.BindingLeaves = entry.Time.Add(window)
}

// normalize applies stabilization, rates and bounds (R25.6).
func (p *pass) normalize(recommendation Recommendation) int32 {
	stabilized := p.stabilize(recommendation)
	step := new(Limit)
	if p.settings.Mode.forbids(p.decision.CurrentReplicas, stabilized) {
		p.limitByMode(step)
	} else if p.spec.Behavior == nil {
		p.limitWithoutBehavior(step, stabilized)
	} else {
		p.limitWithBehavior(step, stabilized)
	}
	p.decision.Limit = step
	p.reportLimit(step)
	return step.Replicas
}

// doubled returns the upper limit of one pass without behavior (R57).
func doubled(current int32) int32 {
	const factor, smallest = 2, 4
	return int32(min(max(factor*int64(current), smallest), math.MaxInt32))
}

// WindowRules are the windows of the recommendation list (R55, R61, R63).
type WindowRules struct {
	// Behavior selects R63 instead of R55.
	Behavior bool `json:"behavior"`
	// Up is the scale-up window. It is only used if Behavior is set.
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

// Remember returns the recommendation list after a pass. The new entry overwrites the last expired
// entry, or is appended (R55, R63). The argument list is not modified.
func Remember(rules WindowRules, list []Recommendation, entry Recommendation) []Recommendation {
	cutoff := entry.Time.Add(-rules.longest())
	slot := len(list)
	for i := range slices.Backward(list) {
		if list[i].Time.Before(cutoff) {
			slot = i
			break
		}
	}
	next := make([]Recommendation, max(len(list), slot+1))
	copy(next, list)
	next[slot] = entry
	return next
}

// longest returns the age beyond which a recommendation is outside all windows (R55, R63).
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
