package policy

import (
	"slices"
	"time"
)

// Next is what would have to happen for the count to change after a pass. Times are
// those of the algorithm: a pass has to come at them, or later.
type Next struct {
	// Count is the count that the pass left.
	Count int32 `json:"count"`
	// At is from when on a pass changes the count to Replicas, as long as the metrics
	// ask for what they ask for; zero when time alone brings about no change.
	At       time.Time `json:"at,omitzero"`
	Replicas int32     `json:"replicas,omitempty"`
	// Waits are what keeps the count from what is asked for, in the order of the
	// algorithm.
	Waits []Wait `json:"waits,omitempty"`
	// Up and Down are what would have the metrics ask for more, or less, than the
	// count; nil where they do already, or where nothing that they ask for would help.
	Up   *Move `json:"up,omitempty"`
	Down *Move `json:"down,omitempty"`
}

// Wait is something that keeps the count.
type Wait struct {
	// Reason is a word that conditions and passes have.
	Reason string `json:"reason"`
	// Replicas is the count that it allows: the window's recommendation, what the rate
	// or the bound comes to, what a metric that failed will propose; 0 where it has none.
	Replicas int32 `json:"replicas,omitempty"`
	// Policy is the scaling policy that allows no more; nil for other waits.
	Policy *ScalingPolicy `json:"policy,omitempty"`
	// Until is when it ends or allows more; zero when time alone does not end it.
	Until time.Time `json:"until,omitzero"`
	// Message says more; empty where there is nothing to say.
	Message string `json:"message,omitempty"`
}

// Move is what a change in one direction takes.
type Move struct {
	// At is the earliest instant at which a pass changes the count, if the metrics ask
	// for it from the next pass on.
	At time.Time `json:"at"`
	// Metrics are the values to be passed. One of them suffices to go up; to go down it
	// takes all.
	Metrics []Threshold `json:"metrics,omitempty"`
}

// Threshold is a value of a metric on whose other side it proposes another count.
type Threshold struct {
	// Metric is the index in the spec.
	Metric int `json:"metric"`
	// Value is in percent for Utilization, else in milli-units: the metric has to be
	// over it to go up, under it to go down.
	Value int64 `json:"value"`
	// Total reports whether Value is of the metric as a whole, although its goal is per
	// instance.
	Total bool `json:"total,omitempty"`
	// Proposal is what the metric proposes just past it.
	Proposal int32 `json:"proposal"`
}

// ahead is what a look ahead goes by: what a pass left.
type ahead struct {
	settings Settings
	spec     Spec
	memory   Memory
	status   Status
	decision *Decision
	count    int32
}

// LookAhead says what would have to happen for the count to change after a pass: count
// is the one that it left, memory and status are what it settled. What the next passes
// would decide is asked of [Decide] itself.
func LookAhead(settings Settings, spec Spec, memory Memory, status Status, decision Decision, count int32) Next {
	a := ahead{settings: settings, spec: spec, memory: memory, status: status, decision: &decision, count: count}
	next := Next{Count: count}
	if decision.Case == CaseUnreadable {
		next.Waits = []Wait{{Reason: failedGetScaleReason, Message: decision.Error}}
		return next
	}
	asked, known := a.asked()
	if known {
		now := a.at(decision.Time, asked)
		next.Waits = a.waits(&now, asked)
		next.At, next.Replicas = a.earliest(asked, 0)
	}
	for i := range decision.Metrics {
		if result := &decision.Metrics[i]; result.Error != "" {
			next.Waits = append(next.Waits, missingWait(result))
		}
	}
	if hold := decision.Hold; hold != nil {
		next.Waits = append(next.Waits, Wait{Reason: holdReason(hold), Until: hold.Until, Message: hold.Message})
		if hold.Until.IsZero() {
			next.At = time.Time{}
		} else if !next.At.IsZero() && next.At.Before(hold.Until) {
			next.At = hold.Until
		}
	}
	if !known || asked <= count {
		next.Up = a.move(1)
	}
	if !known || asked >= count {
		next.Down = a.move(-1)
	}
	return next
}

// missingWait is that a metric which failed has to be read, or else proposes something
// from some time on.
func missingWait(result *MetricResult) Wait {
	wait := Wait{Reason: failureReason(result.Type), Message: describeResult(result)}
	if fallback := result.Fallback; fallback != nil && !fallback.Active && fallback.Replicas != nil {
		wait.Replicas, wait.Until = *fallback.Replicas, fallback.From
	}
	return wait
}

func describeResult(result *MetricResult) string {
	return describeMetric(&MetricSpec{Type: result.Type, Name: result.Name, Task: result.Task, Object: result.Object})
}

// asked is what the metrics ask for; false where they could not be asked.
func (a *ahead) asked() (int32, bool) {
	d := a.decision
	switch {
	case d.Recommendation != nil:
		return *d.Recommendation, true
	case a.outside() || d.Case == CaseDisabled || d.Case == CaseOff || d.Restore != nil:
		return a.count, true // which plays no part
	}
	return 0, false
}

// outside reports whether the count is outside of the bounds, and metrics play no part.
func (a *ahead) outside() bool {
	return a.count != 0 && (a.count > a.spec.MaxReplicas || a.count < minReplicasOf(&a.spec))
}

// at is the decision of a pass at an instant under which the metrics ask for a count:
// one made-up metric does.
func (a *ahead) at(now time.Time, asked int32) Decision {
	one, total := int64(1000), 1000*int64(asked)
	spec := a.spec
	spec.Metrics = []MetricSpec{{Type: ExternalMetric, Target: MetricTarget{Type: AverageValueTarget, AverageValueMilli: &one}}}
	var pauses []Pause
	for i := range a.decision.Pauses {
		if pause := &a.decision.Pauses[i]; pause.Renews || !pause.Ended(now) {
			pauses = append(pauses, *pause)
		}
	}
	observation := Observation{
		Pauses: pauses, SpecReplicas: a.count, StatusReplicas: asked, PlatformMin: a.decision.PlatformMin, PlatformMax: a.decision.PlatformMax,
		Restore: a.decision.Restore, Metrics: []Reading{{ValuesMilli: []int64{total}}},
	}
	return Decide(a.settings, spec, a.memory, a.status, observation, now)
}

// earliest is the first instant, not before the pass's own, at which a pass changes the
// count, and what it changes it to; zero when none does. With a sign it has to go that
// way: 1 is up, -1 down.
func (a *ahead) earliest(asked, sign int32) (time.Time, int32) {
	for _, at := range a.instants(asked) {
		if d := a.at(at, asked); d.Write && sign*(d.DesiredReplicas-a.count) >= 0 {
			return at, d.DesiredReplicas
		}
	}
	return time.Time{}, 0
}

// instants are those at which what is remembered comes to bear no more, in order, and
// the pass's own: between them no pass decides otherwise.
func (a *ahead) instants(asked int32) []time.Time {
	rules := RulesFor(a.settings, a.spec)
	all := []time.Time{a.decision.Time}
	for i := range a.memory.Recommendations {
		switch entry := &a.memory.Recommendations[i]; {
		case !rules.Behavior:
			all = append(all, entry.Time.Add(rules.Down+1)) // strictly before (R55)
		case entry.Replicas > asked:
			all = append(all, entry.Time.Add(rules.Down))
		case entry.Replicas < asked:
			all = append(all, entry.Time.Add(rules.Up))
		}
	}
	for i := range a.decision.Pauses {
		if until := a.decision.Pauses[i].Until; !until.IsZero() {
			all = append(all, until)
		}
	}
	for _, rules := range a.directions() {
		for i := range rules.Policies {
			period := seconds(rules.Policies[i].PeriodSeconds)
			for _, events := range [][]ScaleEvent{a.memory.ScaleUpEvents, a.memory.ScaleDownEvents} {
				for i := range events {
					all = append(all, events[i].Time.Add(period))
				}
			}
		}
	}
	all = slices.DeleteFunc(all, func(at time.Time) bool { return at.Before(a.decision.Time) })
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(all, time.Time.Equal)
}

// directions are the rules of the behavior.
func (a *ahead) directions() []*ScalingRules {
	if a.spec.Behavior == nil {
		return nil
	}
	all := []*ScalingRules{a.spec.Behavior.ScaleUp, a.spec.Behavior.ScaleDown}
	return slices.DeleteFunc(all, func(rules *ScalingRules) bool { return rules == nil })
}

// waits are what keeps the count from what is asked for in a pass.
func (a *ahead) waits(d *Decision, asked int32) (waits []Wait) {
	switch d.Case {
	case CaseDisabled:
		return []Wait{{Reason: scalingDisabled}}
	case CaseOff:
		return []Wait{{Reason: modeOffReason}}
	}
	if s := d.Stabilization; s != nil && s.Binding != nil {
		waits = append(waits, Wait{Reason: s.Reason, Replicas: s.Replicas, Until: s.BindingLeaves})
	}
	if l := d.Limit; l != nil && l.Limited {
		wait := Wait{Reason: l.Reason, Replicas: l.Replicas}
		if l.Reason == scaleUpLimited || l.Reason == scaleDownLimited {
			wait.Policy, wait.Until = l.Policy, a.freed(l, asked)
		}
		waits = append(waits, wait)
	}
	if b := d.PlatformBound; b != nil {
		waits = append(waits, Wait{Reason: b.Reason, Replicas: b.Replicas})
	}
	return append(waits, heldWaits(d)...)
}

// heldWaits are what people decided that keeps the count in a pass.
func heldWaits(d *Decision) (waits []Wait) {
	switch {
	case d.DesiredReplicas == d.CurrentReplicas:
	case d.HeldBy == HeldByMode:
		waits = append(waits, Wait{Reason: modeRecommendReason})
	case d.PausedBy():
		for i := range d.Pauses {
			if pause := &d.Pauses[i]; pause.Direction.Covers(d.CurrentReplicas, d.DesiredReplicas) {
				reason := pausedReason
				if pause.Breaker {
					reason = breakerReason
				}
				wait := Wait{Reason: reason, Until: pause.Until, Message: pause.Message}
				if pause.Renews {
					wait.Until = time.Time{}
				}
				waits = append(waits, wait)
			}
		}
	}
	return waits
}

// freed is when the rate allows a larger step than it did in a pass; zero when it never
// does.
func (a *ahead) freed(limit *Limit, asked int32) time.Time {
	for _, at := range a.instants(asked) {
		if l := a.at(at, asked).Limit; l != nil && (limit.Reason == scaleUpLimited && l.Replicas > limit.Replicas ||
			limit.Reason == scaleDownLimited && l.Replicas < limit.Replicas) {
			return at
		}
	}
	return time.Time{}
}

// move is what it takes to go up (1) or down (-1); nil where nothing does, as at a
// bound, or where a metric would have to be read that failed.
func (a *ahead) move(sign int32) *Move {
	if a.count == 0 && sign < 0 || a.decision.Case == CaseDisabled {
		return nil
	}
	at, _ := a.earliest(a.count+sign, sign)
	if at.IsZero() {
		return nil
	}
	move := &Move{At: at}
	if a.count != a.decision.CurrentReplicas || len(a.decision.Metrics) != len(a.spec.Metrics) {
		return nil // the instances of the next pass are others, and so is what values come to
	}
	for i := range a.decision.Metrics {
		result := &a.decision.Metrics[i]
		switch {
		case result.Error != "", result.Partial != "" && sign < 0:
			if sign < 0 && (!result.Proposes() || result.Proposal >= a.count) {
				return nil // R47
			}
		case sign*(result.Proposal-a.count) <= 0:
			threshold, found := a.threshold(i, sign)
			if found {
				move.Metrics = append(move.Metrics, threshold)
			} else if sign < 0 {
				return nil
			}
		}
	}
	if len(move.Metrics) == 0 {
		return nil
	}
	return move
}
