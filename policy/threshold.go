package policy

import (
	"math"
	"slices"
)

// scale is the proposals of one metric over the values that it may have, as a pass saw
// the instances.
type scale struct {
	// proposal is what the metric proposes for a value; false where it fails.
	proposal func(value int64) (int32, bool)
	// value is the present one, breaks are those about which proposals may change.
	value  int64
	breaks []float64
	total  bool
}

// threshold finds the nearest value of a metric past which it proposes more (1) or less
// (-1) than the count.
func (a *ahead) threshold(metric int, sign int32) (Threshold, bool) {
	s, ok := a.scale(metric, sign)
	if !ok {
		return Threshold{}, false
	}
	past := func(value int64) bool {
		proposal, ok := s.proposal(value)
		return ok && sign*(proposal-a.count) > 0
	}
	near, found := s.value, false
	var far int64
	for _, value := range s.probes(sign) {
		if found = past(value); found {
			far = value
			break
		}
		near = value
	}
	if !found {
		return Threshold{}, false
	}
	for near-far > 1 || far-near > 1 { // past(far), not past(near)
		if middle := near + (far-near)/2; past(middle) {
			far = middle
		} else {
			near = middle
		}
	}
	proposal, _ := s.proposal(far)
	return Threshold{Metric: metric, Value: near, Total: s.total, Proposal: proposal}, true
}

// probes are the values about the breaks, from the present one on, nearest first.
func (s *scale) probes(sign int32) []int64 {
	var all []int64
	for _, at := range s.breaks {
		if !(at <= math.MaxInt64/4) {
			continue
		}
		at = max(0, at)
		for beside := int64(-2); beside <= 2; beside++ {
			value := max(0, int64(at)+beside)
			if int64(sign)*(value-s.value) > 0 {
				all = append(all, value)
			}
		}
	}
	slices.SortFunc(all, func(x, y int64) int {
		if x == y {
			return 0
		}
		if (x < y) == (sign > 0) {
			return -1
		}
		return 1
	})
	return slices.Compact(all)
}

// scale is the proposals of a metric; false where what it depends on is not known.
func (a *ahead) scale(i int, sign int32) (scale, bool) {
	metric, result := &a.spec.Metrics[i], &a.decision.Metrics[i]
	if metric.Type != result.Type || metric.Name != result.Name || result.GoalValue <= 0 {
		return scale{}, false
	}
	switch {
	case metric.Type == ObjectMetric || metric.Type == ExternalMetric:
		return a.wholeScale(metric, result)
	case result.Groups == nil:
		return scale{}, false
	case result.Goal == UtilizationTarget:
		return a.utilizationScale(metric, result, sign)
	}
	return a.amountScale(metric, result, sign)
}

// pass is one over which a metric's value may be another one.
func (a *ahead) pass() *pass {
	d := a.decision
	return &pass{
		settings: a.settings, spec: a.spec, status: a.status, now: d.Time, band: toleranceOf(&a.settings, &a.spec),
		observation: Observation{SpecReplicas: d.CurrentReplicas, StatusReplicas: d.StatusReplicas},
	}
}

// bandBreaks are where a ratio, which is value·slope + rest, leaves the band, passes 1,
// and, multiplied by a number of instances, the counts beside the present one.
func (a *ahead) bandBreaks(slope, rest float64, instances float64) []float64 {
	band := toleranceOf(&a.settings, &a.spec)
	ratios := []float64{1 - band.down, 1, 1 + band.up}
	for by := -2.0; by <= 2; by++ {
		ratios = append(ratios, (float64(a.count)+by)/instances)
	}
	breaks := make([]float64, 0, 2*len(ratios))
	for _, ratio := range ratios {
		breaks = append(breaks, (ratio-rest)/slope)
	}
	return breaks
}

// wholeScale is that of an Object or External metric: of its total.
func (a *ahead) wholeScale(metric *MetricSpec, result *MetricResult) (scale, bool) {
	p, goal := a.pass(), result.GoalValue
	s := scale{total: result.Goal == AverageValueTarget}
	switch {
	case s.total:
		s.value = result.Total
		s.proposal = func(total int64) (int32, bool) {
			var r MetricResult
			p.byAverageValue(total, goal, &r)
			return r.Proposal, true
		}
		s.breaks = append(a.bandBreaks(1/(float64(goal)*float64(a.decision.StatusReplicas)), 0, float64(a.decision.StatusReplicas)),
			a.bandBreaks(1/float64(goal), 0, 1)...)
	case result.Current.ValueMilli == nil:
		return s, false
	default:
		s.value = *result.Current.ValueMilli
		s.proposal = func(value int64) (int32, bool) {
			r := MetricResult{Ready: result.Ready}
			failure := p.byValue(value, goal, &r)
			return r.Proposal, failure == ""
		}
		s.breaks = a.bandBreaks(1/float64(goal), 0, max(1, float64(result.Ready)))
	}
	return s, true
}

// usage is a per-instance metric with the instances that a pass saw.
func (a *ahead) usage(metric *MetricSpec, result *MetricResult) usageMetric {
	u := usageMetric{metric: metric, band: toleranceOf(&a.settings, &a.spec), current: a.count}
	u.tally.groups = *result.Groups
	return u
}

// amountScale is that of a goal per instance: of the average. Of the amounts that come to
// one average it takes the one that is farthest from being past.
func (a *ahead) amountScale(metric *MetricSpec, result *MetricResult, sign int32) (scale, bool) {
	if result.Current.AverageValueMilli == nil {
		return scale{}, false
	}
	u := a.usage(metric, result)
	s := scale{value: *result.Current.AverageValueMilli}
	s.proposal = func(average int64) (int32, bool) {
		var r MetricResult
		given := u
		given.tally.usage = average * int64(u.tally.samples())
		if sign < 0 {
			given.tally.usage = (average+1)*int64(u.tally.samples()) - 1
		}
		failure := given.byAmount(&r)
		return r.Proposal, failure == ""
	}
	goal, samples := float64(result.GoalValue), float64(u.tally.samples())
	missing, unready := float64(u.tally.groups.Missing), float64(u.tally.groups.Unready)
	s.breaks = slices.Concat(
		a.bandBreaks(1/goal, 0, float64(u.tally.groups.Ready)),
		a.bandBreaks(samples/(samples+missing)/goal, missing/(samples+missing), samples+missing),
		a.bandBreaks(samples/(samples+missing+unready)/goal, 0, samples+missing+unready),
	)
	return s, true
}

// utilizationScale is that of a utilization: of the percent used. Of the amounts that
// come to one percent it takes the one that is farthest from being past.
func (a *ahead) utilizationScale(metric *MetricSpec, result *MetricResult, sign int32) (scale, bool) {
	if result.Current.AverageUtilization == nil {
		return scale{}, false
	}
	u := a.usage(metric, result)
	t := &u.tally
	t.requested = 100 // as good as any where only the ratio counts
	if r := result.Requests; r != nil {
		t.requested, t.missingRequested, t.unreadyRequested, t.missingFill = r.Ready, r.Missing, r.Unready, r.MissingFill
	}
	least := func(percent int64) int64 { return (percent*t.requested + 99) / 100 }
	s := scale{value: int64(*result.Current.AverageUtilization)}
	s.proposal = func(percent int64) (int32, bool) {
		if percent > math.MaxInt32 {
			return 0, false
		}
		var r MetricResult
		given := u
		given.tally.usage = least(percent)
		if sign < 0 {
			given.tally.usage = least(percent+1) - 1
		}
		failure := given.byUtilization(&r)
		return r.Proposal, failure == ""
	}
	goal, requested := float64(result.GoalValue), float64(t.requested)
	ready, missing, unready := float64(t.groups.Ready+t.groups.Extraneous), float64(t.groups.Missing), float64(t.groups.Unready)
	withMissing := requested + float64(t.missingRequested)
	s.breaks = slices.Concat(
		a.bandBreaks(1/goal, 0, float64(t.groups.Ready)),
		a.bandBreaks(requested/withMissing/goal, 100*float64(t.missingFill)/withMissing/goal, ready+missing),
		a.bandBreaks(requested/(withMissing+float64(t.unreadyRequested))/goal, 0, ready+missing+unready),
	)
	return s, true
}
