package policy

import "math"

// curve is the proposal of one metric as a function of its value.
type curve struct {
	// proposal returns false if the metric fails with that value.
	proposal func(value int64) (int32, bool)
	// value is the present value.
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

// curve returns false if the decision does not determine the proposals.
func (a *ahead) curve(i int, sign int32) (curve, bool) {
	metric, result := &a.spec.Metrics[i], &a.decision.Metrics[i]
	switch {
	case metric.Type != result.Type || metric.Name != result.Name || result.GoalValue <= 0:
		return curve{}, false
	case metric.Type == ObjectMetric || metric.Type == ExternalMetric:
		return a.wholeCurve(result)
	case result.Groups == nil:
		return curve{}, false
	}
	return a.usageCurve(metric, result, sign)
}

// wholeCurve is the curve of an Object or External metric.
func (a *ahead) wholeCurve(result *MetricResult) (curve, bool) {
	d, goal := a.decision, result.GoalValue
	p := &pass{
		settings: a.settings, spec: a.spec, status: a.status, now: d.Time, band: toleranceOf(&a.settings, &a.spec),
		observation: Observation{SpecReplicas: d.CurrentReplicas, StatusReplicas: d.StatusReplicas},
	}
	switch {
	case result.Goal == AverageValueTarget:
		return curve{value: result.Total, total: true, proposal: func(total int64) (int32, bool) {
			var r MetricResult
			p.byAverageValue(total, goal, &r)
			return r.Proposal, true
		}}, true
	case result.Current.ValueMilli == nil:
		return curve{}, false
	}
	return curve{value: *result.Current.ValueMilli, proposal: func(value int64) (int32, bool) {
		r := MetricResult{Ready: result.Ready}
		failure := p.byValue(value, goal, &r)
		return r.Proposal, failure == ""
	}}, true
}

// usageCurve is the curve of a metric on instances: of the average, or of the percent used. Of
// the sums with the same average it uses the one that is farthest from the threshold.
func (a *ahead) usageCurve(metric *MetricSpec, result *MetricResult, sign int32) (curve, bool) {
	u := usageMetric{metric: metric, band: toleranceOf(&a.settings, &a.spec), current: a.count}
	u.tally.groups = *result.Groups
	current, samples, calculate := result.Current.AverageValueMilli, int64(u.tally.samples()), (*usageMetric).byAmount
	least := func(average int64) int64 { return average * samples }
	if result.Goal == UtilizationTarget {
		if result.Current.AverageUtilization == nil {
			return curve{}, false
		}
		t := &u.tally
		t.requested = 100 // only the ratio matters
		if r := result.Requests; r != nil {
			t.requested, t.missingRequested, t.unreadyRequested, t.missingFill = r.Ready, r.Missing, r.Unready, r.MissingFill
		}
		percent := int64(*result.Current.AverageUtilization)
		current, calculate = &percent, (*usageMetric).byUtilization
		least = func(percent int64) int64 { return (percent*t.requested + 99) / 100 }
	}
	if current == nil {
		return curve{}, false
	}
	return curve{value: *current, proposal: func(value int64) (int32, bool) {
		if result.Goal == UtilizationTarget && value > math.MaxInt32 {
			return 0, false
		}
		var r MetricResult
		given := u
		given.tally.usage = least(value)
		if sign < 0 {
			given.tally.usage = least(value+1) - 1
		}
		failure := calculate(&given, &r)
		return r.Proposal, failure == ""
	}}, true
}
