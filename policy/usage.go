package policy

import (
	"strconv"
	"time"
)

// missingPercent is the minimum usage, as a percentage of the request, that is assumed for a
// missing instance when scaling down (R36.3).
const missingPercent = 100

// tally contains sums over instances and samples (R4).
type tally struct {
	groups Groups
	// usage and requested are sums over ready instances.
	usage, requested total
	// strayUsage is the sum of samples of unknown instances.
	strayUsage total
	// missingFill is the assumed usage of missing instances (R36.3).
	missingRequested, unreadyRequested, missingFill total
}

func tallyFor(k Kubernetes) tally {
	zero := k.total(0)
	return tally{usage: zero, requested: zero, strayUsage: zero, missingRequested: zero, unreadyRequested: zero, missingFill: zero}
}

// samples returns |S|, the number of samples, including those of unknown instances (R34).
func (t *tally) samples() int { return t.groups.Ready + t.groups.Extraneous }

// usageMetric evaluates a metric that has a value for each instance (R31 to R37).
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
		return "the source returned no samples"
	case len(instances) == 0: // R34
		return "the target has no instances"
	}
	u := usageMetric{metric: metric, band: p.band, current: p.observation.SpecReplicas, tally: tallyFor(p.settings.Kubernetes)}
	utilization := false
	switch {
	case metric.Target.AverageValueMilli != nil: // R31
		result.TargetType, result.TargetValue = AverageValueTarget, *metric.Target.AverageValueMilli
	case metric.Type != InstancesMetric && metric.Target.AverageUtilization != nil:
		utilization = true
		result.TargetType, result.TargetValue = UtilizationTarget, int64(*metric.Target.AverageUtilization)
		result.UtilizationOf = metric.Target.UtilizationOf
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
			result.Requests = &Requests{
				Ready: t.requested.saturated(), Missing: t.missingRequested.saturated(),
				Unready: t.unreadyRequested.saturated(), MissingFill: t.missingFill.saturated(),
			}
		}
		return u.byUtilization(result)
	}
	return u.byAmount(result)
}

// walk groups the instances and adds their values. It returns the index of the first instance
// without a required request, or -1.
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
		if utilization { // R28: required for ignored instances too
			var ok bool
			if request, ok = requestOf(instance, u.metric); !ok {
				return i
			}
		}
		switch grouping.of(instance, sample) {
		case ready:
			t.groups.Ready++
			t.usage.add(sample.Milli)
			t.requested.add(request)
		case unready:
			t.groups.Unready++
			t.unreadyRequested.add(request)
		case missing:
			t.groups.Missing++
			t.missingRequested.add(request)
			t.missingFill.add(request * fill / 100) // the product wraps
		case ignored:
			t.groups.Ignored++
		}
	}
	for i := len(instances); i < len(samples); i++ {
		if samples[i].OK {
			t.groups.Extraneous++
			t.strayUsage.add(samples[i].Milli)
		}
	}
	return -1
}

func (u *usageMetric) noSamples() string {
	g := u.tally.groups
	return "no instance has a usable sample: " + strconv.Itoa(g.Unready) + " unready, " +
		strconv.Itoa(g.Missing) + " without a sample, " + strconv.Itoa(g.Ignored) + " stopping or failed"
}

// utilization returns the percentage and the ratio of R35.
func utilization(usage, requested total, percent int32) (used int32, ratio float64) {
	used = usage.percentOf(requested)
	return used, float64(used) / float64(percent)
}

// byUtilization implements R36.
func (u *usageMetric) byUtilization(result *MetricResult) string {
	t, target := &u.tally, *u.metric.Target.AverageUtilization
	if t.groups.Ready == 0 { // R35: all measured instances are gone
		return u.noSamples() + "; " + strconv.Itoa(t.groups.Extraneous) + " samples belong to instances that no longer exist"
	}
	if t.requested.isZero() { // R35
		return "the instances with a sample request no " + u.metric.Name + " at all"
	}
	used, ratio := utilization(t.usage, t.requested, target)
	completed := u.complete(ratio)
	usage, requested := t.usage, t.requested
	if completed.missing {
		requested = requested.plus(t.missingRequested)
		if ratio < 1 {
			usage = usage.plus(t.missingFill)
		}
	}
	if completed.unready {
		requested = requested.plus(t.unreadyRequested)
	}
	if requested.isZero() { // R36.4
		return "the instances request no " + u.metric.Name + " at all"
	}
	average := t.usage.average(t.groups.Ready)
	result.Current.AverageUtilization, result.Current.AverageValueMilli = &used, &average
	ratio2 := ratio
	if completed.missing || completed.unready {
		_, ratio2 = utilization(usage, requested, target)
	}
	u.propose(result, completed, ratio, ratio2)
	return ""
}

// byAmount implements R37.
func (u *usageMetric) byAmount(result *MetricResult) string {
	t, target := &u.tally, *u.metric.Target.AverageValueMilli
	usage := t.usage.plus(t.strayUsage)
	average := usage.average(t.samples())
	ratio := float64(average) / float64(target)
	completed := u.complete(ratio)
	if completed.missing && ratio < 1 {
		for range t.groups.Missing {
			usage.add(target)
		}
	}
	result.Current.AverageValueMilli = &average
	ratio2 := ratio
	if completed.missing || completed.unready {
		ratio2 = float64(usage.average(completed.samples)) / float64(target)
	}
	u.propose(result, completed, ratio, ratio2)
	return ""
}

// completion describes the instances that R36.3 adds to the samples.
type completion struct {
	// direct is set if R36.2 determines the proposal.
	direct           bool
	missing, unready bool
	samples          int
}

// complete selects the instances to add (R36.1 to R36.3). It does not calculate their usage.
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

// propose implements R36.2 and R36.5 to R36.8. The argument completed is the ratio after
// completion.
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

// rule returns the name of a step of R36, or of R37, which has the same steps.
func (u *usageMetric) rule(step int) string {
	names := [...]string{2: "R36.2", 5: "R36.5", 7: "R36.7", 8: "R36.8"}
	if u.metric.Target.AverageValueMilli != nil {
		names = [...]string{2: "R37.2", 5: "R37.5", 7: "R37.7", 8: "R37.8"}
	}
	return names[step]
}

// tolerance is the band around a ratio of 1 in which the count does not change (R30).
type tolerance struct {
	down, up float64
}

// toleranceOf returns the tolerance of each direction (R30).
func toleranceOf(settings *Settings, spec *Spec) tolerance {
	band := tolerance{down: settings.Tolerance, up: settings.Tolerance}
	if spec.Behavior == nil {
		return band
	}
	if rules := spec.Behavior.ScaleDown; rules != nil && rules.Tolerance != nil {
		band.down = *rules.Tolerance
	}
	if rules := spec.Behavior.ScaleUp; rules != nil && rules.Tolerance != nil {
		band.up = *rules.Tolerance
	}
	return band
}

// within reports whether a ratio is in the band, including its limits. It returns false for NaN
// (R30).
func (t tolerance) within(ratio float64) bool {
	return 1-t.down <= ratio && ratio <= 1+t.up
}

// group is one of the four groups of R27.
type group uint8

const (
	ready group = iota
	unready
	missing
	ignored
)

var groupNames = [...]string{ready: "ready", unready: "unready", missing: "missing", ignored: "ignored"}

type grouping struct {
	// cpu enables step 4 of R27.
	cpu bool
	// initialized is the latest start time of an instance whose initialization period has ended.
	initialized time.Time
	delay       time.Duration
	kubernetes  Kubernetes
}

func groupingFor(settings *Settings, metric *MetricSpec, now time.Time) grouping {
	return grouping{
		cpu:         metric.Name == "cpu" && (metric.Type == ResourceMetric || metric.Type == ContainerResourceMetric),
		initialized: now.Add(-settings.CPUInitializationPeriod),
		delay:       settings.InitialReadinessDelay,
		kubernetes:  settings.Kubernetes,
	}
}

// of returns the group of an instance (R27). The argument sample is nil if the instance has no
// usable sample.
func (g *grouping) of(instance *Instance, sample *Sample) group {
	group := g.groupOf(instance, sample)
	if group == ready && g.cpu && g.cpuUnready(instance, sample) {
		return unready
	}
	return group
}

// sampleOf returns the usable sample of an instance, or nil.
func sampleOf(samples []Sample, i int) *Sample {
	if i < len(samples) && samples[i].OK {
		return &samples[i]
	}
	return nil
}

// groupOf returns the group of an instance by steps 1 to 3 of R27, which apply to all metrics.
func (g *grouping) groupOf(instance *Instance, sample *Sample) group {
	switch {
	case instance.Deleting || g.kubernetes.ignores(instance.Phase):
		return ignored
	case instance.Phase == PhasePending:
		return unready
	case sample == nil:
		return missing
	}
	return ready
}

// cpuUnready implements step 4 of R27: the cpu sample of a starting instance does not reflect its
// load.
func (g *grouping) cpuUnready(instance *Instance, sample *Sample) bool {
	if instance.Readiness == ReadinessNotKnown || instance.StartedAt.IsZero() {
		return true
	}
	if instance.StartedAt.After(g.initialized) {
		return instance.Readiness == ReadinessFalse ||
			sample.At.Before(instance.ReadinessChanged.Add(sample.Window))
	}
	return instance.Readiness == ReadinessFalse &&
		instance.StartedAt.Add(g.delay).After(instance.ReadinessChanged)
}

// Usage is the sum of the contributions of all instances to a metric.
type Usage struct {
	// Milli is the sum over the samples that the metric uses, in milli-units.
	Milli  int64
	Groups Groups
	// Requests is set for a utilization.
	Requests *Requests
}

// SumUsage returns the usage of a Resource, ContainerResource or Instances metric. It returns false
// if no instance has a usable sample, or if an instance lacks a request.
func SumUsage(settings Settings, metric *MetricSpec, instances []Instance, reading *Reading, now time.Time) (usage Usage, ok bool) {
	u := usageMetric{metric: metric, tally: tallyFor(settings.Kubernetes)}
	utilization := metric.Target.AverageValueMilli == nil && metric.Target.AverageUtilization != nil
	lacking := u.walk(groupingFor(&settings, metric, now), instances, reading.Samples, utilization)
	t := &u.tally
	if reading.Error != "" || lacking >= 0 || t.samples() == 0 {
		return usage, false
	}
	usage.Groups = t.groups
	if utilization {
		usage.Milli = t.usage.saturated()
		usage.Requests = &Requests{Ready: t.requested.saturated(), Missing: t.missingRequested.saturated(), Unready: t.unreadyRequested.saturated()}
		return usage, true
	}
	usage.Milli = t.usage.plus(t.strayUsage).saturated()
	return usage, true
}

// Measured is the contribution of one instance to a metric.
type Measured struct {
	// Group is "ready", "unready", "missing" or "ignored" (R27).
	Group string `json:"group"`
	// ValueMilli is the measured value, or nil.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// Utilization is the value as a percentage of the request; nil if it does not apply.
	Utilization *int32 `json:"utilization,omitempty"`
}

// Measure returns the contribution of each instance to a Resource, ContainerResource or
// Instances metric.
func Measure(settings Settings, metric *MetricSpec, instances []Instance, reading *Reading, now time.Time) []Measured {
	grouping := groupingFor(&settings, metric, now)
	measured := make([]Measured, len(instances))
	for i := range instances {
		sample := sampleOf(reading.Samples, i)
		m := &measured[i]
		m.Group = groupNames[grouping.of(&instances[i], sample)]
		if sample == nil {
			continue
		}
		m.ValueMilli = &sample.Milli
		if metric.Type == InstancesMetric || metric.Target.AverageUtilization == nil {
			continue
		}
		if request, ok := requestOf(&instances[i], metric); ok && request > 0 {
			used := settings.Kubernetes.total(sample.Milli).percentOf(settings.Kubernetes.total(request))
			m.Utilization = &used
		}
	}
	return measured
}
