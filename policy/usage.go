package policy

import "strconv"

// missingPercent is the minimum usage of a missing instance when scaling down (R36.3).
const missingPercent = 100

// tally has sums over instances and samples. They wrap (R4).
type tally struct {
	groups Groups
	// usage and requested are sums over ready instances.
	usage, requested int64
	// strayUsage is the sum of samples of unknown instances.
	strayUsage int64
	// missingFill is the assumed usage of missing instances (R36.3).
	missingRequested, unreadyRequested, missingFill int64
}

// samples is |S|, including samples of unknown instances (R34).
func (t *tally) samples() int { return t.groups.Ready + t.groups.Extraneous }

// usageMetric evaluates a metric on instances (R31 to R37).
type usageMetric struct {
	metric  *MetricSpec
	band    tolerance
	current int32
	tally   tally
}

// evaluateUsage evaluates a Resource, ContainerResource or Instances metric. It returns the
// metric's error.
func (p *pass) evaluateUsage(metric *MetricSpec, reading *Reading, result *MetricResult) string {
	instances := p.observation.Instances
	switch {
	case len(reading.Samples) == 0: // R26
		return "the source answered with no sample at all"
	case len(instances) == 0: // R34
		return "the target has no instances"
	}
	u := usageMetric{metric: metric, band: p.band, current: p.observation.SpecReplicas}
	utilization := false
	switch {
	case metric.Target.AverageValueMilli != nil: // R31
		result.Goal, result.GoalValue = AverageValueTarget, *metric.Target.AverageValueMilli
	case metric.Type != InstancesMetric && metric.Target.AverageUtilization != nil:
		utilization = true
		result.Goal, result.GoalValue = UtilizationTarget, int64(*metric.Target.AverageUtilization)
	default:
		return "the metric's target has no average_value"
	}
	lacking := u.walk(groupingFor(&p.settings, metric, p.now), instances, reading.Samples, utilization)
	if lacking >= 0 { // R28
		return missingRequest(&instances[lacking], metric)
	}
	groups := u.tally.groups
	result.Groups = &groups
	if u.tally.samples() == 0 { // R34
		return u.noSamples()
	}
	if utilization {
		if t := u.tally; t.groups.Missing > 0 || t.groups.Unready > 0 {
			result.Requests = &Requests{Ready: t.requested, Missing: t.missingRequested, Unready: t.unreadyRequested, MissingFill: t.missingFill}
		}
		return u.byUtilization(result)
	}
	return u.byAmount(result)
}

// walk groups the instances and adds their values. It returns the index of the first instance
// without a needed request, or -1.
func (u *usageMetric) walk(grouping grouping, instances []Instance, samples []Sample, utilization bool) int {
	t := &u.tally
	fill := int64(missingPercent)
	if utilization {
		fill = max(fill, int64(*u.metric.Target.AverageUtilization))
	}
	for i := range instances {
		instance := &instances[i]
		sample := sampleOf(samples, i)
		var request int64
		if utilization { // R28: also of those that do not count
			var ok bool
			if request, ok = requestOf(instance, u.metric); !ok {
				return i
			}
		}
		switch grouping.of(instance, sample) {
		case ready:
			t.groups.Ready++
			t.usage += sample.Milli
			t.requested += request
		case unready:
			t.groups.Unready++
			t.unreadyRequested += request
		case missing:
			t.groups.Missing++
			t.missingRequested += request
			t.missingFill += request * fill / 100
		case ignored:
			t.groups.Ignored++
		}
	}
	for i := len(instances); i < len(samples); i++ {
		if samples[i].OK {
			t.groups.Extraneous++
			t.strayUsage += samples[i].Milli
		}
	}
	return -1
}

func (u *usageMetric) noSamples() string {
	g := u.tally.groups
	return "no instance has a usable sample: " + strconv.Itoa(g.Unready) + " unready, " +
		strconv.Itoa(g.Missing) + " without a sample, " + strconv.Itoa(g.Ignored) + " stopping or failed"
}

// utilization is the percentage and the ratio of R35.
func utilization(usage, requested int64, percent int32) (used int32, ratio float64) {
	used = int32(usage * 100 / requested) // R35: wraps at 32 bits
	return used, float64(used) / float64(percent)
}

// byUtilization is R36.
func (u *usageMetric) byUtilization(result *MetricResult) string {
	t, target := &u.tally, *u.metric.Target.AverageUtilization
	if t.groups.Ready == 0 { // R35: all measured instances are gone
		return u.noSamples() + "; " + strconv.Itoa(t.groups.Extraneous) + " samples are of instances that are gone"
	}
	if t.requested == 0 { // R35
		return "the instances that have a sample request no " + u.metric.Name + " at all"
	}
	used, ratio := utilization(t.usage, t.requested, target)
	completed := u.complete(ratio)
	usage, requested := t.usage, t.requested
	if completed.missing {
		requested += t.missingRequested
		if ratio < 1 {
			usage += t.missingFill
		}
	}
	if completed.unready {
		requested += t.unreadyRequested
	}
	if requested == 0 { // R36.4
		return "the instances together request no " + u.metric.Name + " at all"
	}
	average := t.usage / int64(t.groups.Ready)
	result.Current.AverageUtilization, result.Current.AverageValueMilli = &used, &average
	ratio2 := ratio
	if completed.missing || completed.unready {
		_, ratio2 = utilization(usage, requested, target)
	}
	u.propose(result, completed, ratio, ratio2)
	return ""
}

// byAmount is R37.
func (u *usageMetric) byAmount(result *MetricResult) string {
	t, target := &u.tally, *u.metric.Target.AverageValueMilli
	usage := t.usage + t.strayUsage
	average := usage / int64(t.samples())
	ratio := float64(average) / float64(target)
	completed := u.complete(ratio)
	if completed.missing && ratio < 1 {
		usage += int64(t.groups.Missing) * target
	}
	result.Current.AverageValueMilli = &average
	ratio2 := ratio
	if completed.missing || completed.unready {
		ratio2 = float64(usage/int64(completed.samples)) / float64(target)
	}
	u.propose(result, completed, ratio, ratio2)
	return ""
}

// completion has the instances that R36.3 adds to the samples.
type completion struct {
	// direct is set if R36.2 decides.
	direct           bool
	missing, unready bool
	samples          int
}

// complete is R36.1 to R36.3, without the amounts.
func (u *usageMetric) complete(ratio float64) completion {
	groups := &u.tally.groups
	c := completion{samples: u.tally.samples()}
	c.unready = groups.Unready > 0 && ratio > 1
	c.direct = !c.unready && groups.Missing == 0
	c.missing = groups.Missing > 0 && (ratio < 1 || ratio > 1)
	if c.missing {
		c.samples += groups.Missing
	}
	if c.unready {
		c.samples += groups.Unready
	}
	return c
}

// propose is R36.2 and R36.5 to R36.8. completed is the ratio after completion.
func (u *usageMetric) propose(result *MetricResult, c completion, ratio, completed float64) {
	result.Ratio = finitePointer(ratio)
	if c.direct {
		if result.Within = u.band.within(ratio); result.Within {
			result.Proposal, result.Rule = u.current, u.rule(2)
			return
		}
		result.BaseCount = saturateToInt32(int64(u.tally.groups.Ready))
		result.Proposal, result.Rule = ceilToInt32(ratio*float64(u.tally.groups.Ready)), u.rule(2)
		return
	}
	result.CompletedRatio = finitePointer(completed)
	if result.Within = u.band.within(completed); result.Within || ratio < 1 && completed > 1 || ratio > 1 && completed < 1 {
		result.Proposal, result.Rule = u.current, u.rule(5)
		return
	}
	result.BaseCount = saturateToInt32(int64(c.samples))
	n := ceilToInt32(completed * float64(c.samples))
	if completed < 1 && n > u.current || completed > 1 && n < u.current {
		result.Proposal, result.Rule = u.current, u.rule(7)
		return
	}
	result.Proposal, result.Rule = n, u.rule(8)
}

// rule names a step of R36, or of R37, which has the same steps.
func (u *usageMetric) rule(step int) string {
	names := [...]string{2: "R36.2", 5: "R36.5", 7: "R36.7", 8: "R36.8"}
	if u.metric.Target.AverageValueMilli != nil {
		names = [...]string{2: "R37.2", 5: "R37.5", 7: "R37.7", 8: "R37.8"}
	}
	return names[step]
}
