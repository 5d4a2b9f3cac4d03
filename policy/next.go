package policy

import (
	"math"
	"slices"
	"time"
)

// Next describes the times and metric values that would change the count after a pass.
type Next struct {
	// Count is the number of replicas after the pass.
	Count int32 `json:"count"`
	// At is when a pass changes the count to Replicas if the recommendation stays the same; zero if
	// the passage of time changes nothing.
	At       time.Time `json:"at,omitzero"`
	Replicas int32     `json:"replicas,omitempty"`
	// Waits contains the reasons for a delayed change, in the order of the algorithm.
	Waits []Wait `json:"waits,omitempty"`
	// Up and Down are the metric values that would change the recommendation. A field is nil if the
	// recommendation already differs in that direction, or if no value would change it.
	Up   *Move `json:"up,omitempty"`
	Down *Move `json:"down,omitempty"`
}

// Wait is a reason for a delayed change.
type Wait struct {
	// Reason is a code such as "ScaleDownStabilized".
	Reason string `json:"reason"`
	// Replicas is the count that the wait allows, or 0.
	Replicas int32 `json:"replicas,omitempty"`
	// Policy is the limiting scaling policy, or nil.
	Policy *ScalingPolicy `json:"policy,omitempty"`
	// Until is when the wait ends or allows a larger change; zero if time alone does not end it.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"`
}

// Move describes a change in one direction.
type Move struct {
	// At is the earliest instant of a change if the recommendation changes with the next pass.
	At time.Time `json:"at"`
	// Metrics are the thresholds. One of them is sufficient to scale up. All of them are necessary
	// to scale down.
	Metrics []Threshold `json:"metrics,omitempty"`
}

// Threshold is a limit beyond which a metric proposes a different count.
type Threshold struct {
	// Metric is the index of the metric in the spec.
	Metric int `json:"metric"`
	// Value is in percent for Utilization, otherwise in milli-units.
	Value int64 `json:"value"`
	// Total reports whether Value is the total of a metric with a target per instance.
	Total bool `json:"total,omitempty"`
	// Proposal is the count that the metric proposes just beyond Value.
	Proposal int32 `json:"proposal"`
}

// ahead is the state after a pass. [LookAhead] continues from it.
type ahead struct {
	settings Settings
	spec     Spec
	memory   Memory
	status   Status
	decision *Decision
	count    int32
}

// LookAhead returns the times and metric values that would change the count after a pass. The
// arguments count, memory and status are the values after [Settle]. LookAhead evaluates future
// passes with [Decide].
func LookAhead(settings Settings, spec Spec, memory Memory, status Status, decision Decision, count int32) Next {
	a := ahead{settings: settings, spec: spec, memory: memory, status: status, decision: &decision, count: count}
	next := Next{Count: count}
	if decision.Case == CaseUnreadable {
		next.Waits = []Wait{{Reason: failedGetScaleReason, Message: decision.Error}}
		return next
	}
	recommended, known := a.requested()
	if known {
		now := a.at(decision.Time, recommended)
		next.Waits = a.waits(&now, recommended)
		next.At, next.Replicas = a.earliest(recommended, 0)
	}
	for i := range decision.Metrics {
		if result := &decision.Metrics[i]; result.Error != "" || result.Partial != "" && !known {
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
	if !known || recommended <= count {
		next.Up = a.move(1)
	}
	if !known || recommended >= count {
		next.Down = a.move(-1)
	}
	return next
}

// missingWait returns the wait for a failed metric or its fallback.
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

// requested returns the recommendation, and false if it is unknown.
func (a *ahead) requested() (int32, bool) {
	d := a.decision
	switch {
	case d.Outage != nil:
		return d.Outage.Proposed, true
	case d.Command != nil && d.Recommendation != nil && *d.Recommendation < a.count && a.unsure():
		return 0, false // R47
	case d.Recommendation != nil:
		return *d.Recommendation, true
	case a.outside() || d.Case == CaseDisabled || d.Case == CaseStopped || d.Case == CaseOff || d.Restore != nil:
		return a.count, true // metrics do not affect the count
	}
	return 0, false
}

// unsure reports whether a failed metric or a partial result prevents a scale-down from the count
// that an operator has set.
func (a *ahead) unsure() bool {
	return !a.outside() && slices.ContainsFunc(a.decision.Metrics, func(result MetricResult) bool {
		return !result.Input && (result.Error != "" && !result.Proposes() || result.Error == "" && result.Partial != "")
	})
}

// outside reports whether the count is outside the bounds.
func (a *ahead) outside() bool {
	return a.count != 0 && (a.count > a.spec.MaxReplicas || a.count < minReplicasOf(&a.spec))
}

// at returns the decision of a future pass if the metrics recommend a count.
func (a *ahead) at(now time.Time, recommended int32) Decision {
	one, total := int64(1000), 1000*int64(recommended)
	spec := a.spec
	spec.Metrics = []MetricSpec{{Type: ExternalMetric, Target: MetricTarget{Type: AverageValueTarget, AverageValueMilli: &one}}}
	var pauses []Pause
	for i := range a.decision.Pauses {
		if pause := &a.decision.Pauses[i]; !pause.Ended(now) {
			pauses = append(pauses, *pause)
		}
	}
	observation := Observation{
		Pauses: pauses, SpecReplicas: a.count, StatusReplicas: recommended, PlatformMin: a.decision.PlatformMin, PlatformMax: a.decision.PlatformMax,
		NeverStarted: a.decision.NeverStarted && a.count == 0, Finite: a.decision.Finite, Restore: a.decision.Restore, Metrics: []Reading{{ValuesMilli: []int64{total}}},
	}
	memory := a.memory
	if outage := a.decision.Outage; outage != nil && !now.Before(outage.Until) { // the last pass of the hold
		memory.Recommendations = append(slices.Clip(memory.Recommendations), Recommendation{Replicas: a.count, Time: outage.Until, Held: true})
	}
	return Decide(a.settings, spec, memory, a.status, observation, now)
}

// earliest returns the first instant when a pass changes the count, and the new count. Both are
// zero if there is no such instant. sign selects the direction: 1 is up, -1 is down, and 0 is both.
func (a *ahead) earliest(recommended, sign int32) (time.Time, int32) {
	for _, at := range a.instants(recommended) {
		if d := a.at(at, recommended); d.Write && sign*(d.DesiredReplicas-a.count) >= 0 {
			return at, d.DesiredReplicas
		}
	}
	return time.Time{}, 0
}

// instants returns the times when the result of a pass can change, in order.
func (a *ahead) instants(recommended int32) []time.Time {
	rules := RulesFor(a.settings, a.spec)
	all := []time.Time{a.decision.Time}
	for i := range a.memory.Recommendations {
		switch entry := &a.memory.Recommendations[i]; {
		case !rules.Behavior:
			all = append(all, entry.Time.Add(rules.Down+1)) // strictly before (R55)
		case entry.within(a.count) > recommended:
			all = append(all, entry.Time.Add(rules.Down))
		case entry.within(a.count) < recommended:
			all = append(all, entry.Time.Add(rules.Up))
		}
	}
	if since := a.memory.NoReadySince; !since.IsZero() {
		until := since.Add(a.settings.OutageHold)
		all = append(all, until, until.Add(rules.Down), until.Add(rules.Down+1))
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

func (a *ahead) directions() []*ScalingRules {
	if a.spec.Behavior == nil {
		return nil
	}
	all := []*ScalingRules{a.spec.Behavior.ScaleUp, a.spec.Behavior.ScaleDown}
	return slices.DeleteFunc(all, func(rules *ScalingRules) bool { return rules == nil })
}

// waits returns the reasons why the count does not change to the recommendation yet.
func (a *ahead) waits(d *Decision, recommended int32) (waits []Wait) {
	switch d.Case {
	case CaseDisabled:
		return []Wait{{Reason: scalingDisabled}}
	case CaseStopped:
		return []Wait{{Reason: tooManyReplicas}}
	case CaseOff:
		return []Wait{{Reason: modeOffReason}}
	}
	if outage := d.Outage; outage != nil {
		waits = append(waits, Wait{Reason: noReadyInstance, Replicas: a.count, Until: outage.Until})
	}
	if s := d.Stabilization; s != nil && s.Binding != nil {
		waits = append(waits, Wait{Reason: s.Reason, Replicas: s.Replicas, Until: s.BindingLeaves})
	}
	if l := d.Limit; l != nil && l.Limited {
		wait := Wait{Reason: l.Reason, Replicas: l.Replicas}
		if l.Reason == scaleUpLimited || l.Reason == scaleDownLimited {
			wait.Policy, wait.Until = l.Policy, a.freed(l, recommended)
		}
		waits = append(waits, wait)
	}
	if b := d.PlatformBound; b != nil {
		waits = append(waits, Wait{Reason: b.Reason, Replicas: b.Replicas})
	}
	return append(waits, heldWaits(d)...)
}

// heldWaits returns the pauses and the mode that delay a change.
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
				waits = append(waits, Wait{Reason: reason, Until: pause.Until, Message: pause.Message})
			}
		}
	}
	return waits
}

// freed returns the time when the rate limit allows a larger change, or zero if it never does.
func (a *ahead) freed(limit *Limit, recommended int32) time.Time {
	for _, at := range a.instants(recommended) {
		if l := a.at(at, recommended).Limit; l != nil && (limit.Reason == scaleUpLimited && l.Replicas > limit.Replicas ||
			limit.Reason == scaleDownLimited && l.Replicas < limit.Replicas) {
			return at
		}
	}
	return time.Time{}
}

// move describes the next change up (sign 1) or down (sign -1). It returns nil if the change is
// impossible, for example at a bound or while a metric fails.
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
		return nil // the next pass evaluates different instances
	}
	for i := range a.decision.Metrics {
		result := &a.decision.Metrics[i]
		switch {
		case result.Input:
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

// curve is the proposal of one metric as a function of its value.
type curve struct {
	// proposal returns false if the metric fails with that value.
	proposal func(value int64) (int32, bool)
	// value is the current value.
	value int64
	total bool
}

// maxThreshold limits the search, so that sums over all instances do not overflow.
const maxThreshold = 1 << 55

// threshold returns the value of a metric beyond which it proposes more (sign 1) or less (-1)
// than the count.
func (a *ahead) threshold(metric int, sign int32) (Threshold, bool) {
	c, ok := a.curve(metric, sign)
	if !ok {
		return Threshold{}, false
	}
	beyond := func(value int64) bool {
		proposal, ok := c.proposal(value)
		return ok && sign*(proposal-a.count) > 0
	}
	near, far := c.value, int64(0)
	if sign > 0 {
		for far = max(1, near+1); far < maxThreshold && !beyond(far); far *= 2 {
			near = far
		}
	}
	if !beyond(far) || sign < 0 && near <= 0 {
		return Threshold{}, false
	}
	for near-far > 1 || far-near > 1 {
		if middle := near + (far-near)/2; beyond(middle) {
			far = middle
		} else {
			near = middle
		}
	}
	proposal, _ := c.proposal(far)
	return Threshold{Metric: metric, Value: near, Total: c.total, Proposal: proposal}, true
}

// curve returns the curve of metric i. It returns false if the decision lacks the necessary data.
func (a *ahead) curve(i int, sign int32) (curve, bool) {
	metric, result := &a.spec.Metrics[i], &a.decision.Metrics[i]
	switch {
	case metric.Type != result.Type || metric.Name != result.Name || result.TargetValue <= 0:
		return curve{}, false
	case metric.Type == ObjectMetric || metric.Type == ExternalMetric:
		return a.wholeCurve(metric, result)
	case result.Groups == nil:
		return curve{}, false
	}
	return a.usageCurve(metric, result, sign)
}

// wholeCurve returns the curve of an Object or External metric.
func (a *ahead) wholeCurve(metric *MetricSpec, result *MetricResult) (curve, bool) {
	d, target := a.decision, result.TargetValue
	p := &pass{
		settings: a.settings, spec: a.spec, status: a.status, now: d.Time, band: toleranceOf(&a.settings, &a.spec),
		observation: Observation{SpecReplicas: d.CurrentReplicas, StatusReplicas: d.StatusReplicas},
	}
	switch {
	case result.TargetType == AverageValueTarget:
		return curve{value: result.Total, total: true, proposal: func(total int64) (int32, bool) {
			var r MetricResult
			p.byAverageValue(total, target, &r)
			p.activate(metric, total, &r)
			return r.Proposal, true
		}}, true
	case result.Current.ValueMilli == nil:
		return curve{}, false
	}
	return curve{value: *result.Current.ValueMilli, proposal: func(value int64) (int32, bool) {
		r := MetricResult{Ready: result.Ready}
		failure := p.byValue(value, target, &r)
		p.activate(metric, value, &r)
		return r.Proposal, failure == ""
	}}, true
}

// usageCurve returns the curve of a metric with a value for each instance, as a function of the
// average or of the utilization in percent. Many sums have the same rounded average; the curve uses
// the sum that is farthest from the threshold.
func (a *ahead) usageCurve(metric *MetricSpec, result *MetricResult, sign int32) (curve, bool) {
	u := usageMetric{metric: metric, band: toleranceOf(&a.settings, &a.spec), current: a.count, tally: tallyFor(a.settings.Kubernetes)}
	u.tally.groups = *result.Groups
	current, samples, calculate := result.Current.AverageValueMilli, int64(u.tally.samples()), (*usageMetric).byAmount
	least := func(average int64) int64 { return average * samples }
	if result.TargetType == UtilizationTarget {
		if result.Current.AverageUtilization == nil {
			return curve{}, false
		}
		t := &u.tally
		requests := Requests{Ready: 100} // only the ratio matters
		if r := result.Requests; r != nil {
			requests = *r
		}
		sum := a.settings.Kubernetes.total
		t.requested, t.missingRequested, t.unreadyRequested, t.missingFill = sum(requests.Ready), sum(requests.Missing), sum(requests.Unready), sum(requests.MissingFill)
		percent := int64(*result.Current.AverageUtilization)
		current, calculate = &percent, (*usageMetric).byUtilization
		least = func(percent int64) int64 { return (percent*requests.Ready + 99) / 100 }
	}
	if current == nil {
		return curve{}, false
	}
	return curve{value: *current, proposal: func(value int64) (int32, bool) {
		if result.TargetType == UtilizationTarget && value > math.MaxInt32 {
			return 0, false
		}
		var r MetricResult
		given := u
		usage := least(value)
		if sign < 0 {
			usage = least(value+1) - 1
		}
		given.tally.usage = a.settings.Kubernetes.total(usage)
		failure := calculate(&given, &r)
		return r.Proposal, failure == ""
	}}, true
}
