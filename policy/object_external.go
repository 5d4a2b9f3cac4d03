package policy

import "math"

// evaluateWhole evaluates an Object or External metric (R39 to R45). It returns the metric's
// error.
func (p *pass) evaluateWhole(metric *MetricSpec, reading *Reading, result *MetricResult) string {
	var value int64
	external := metric.Type == ExternalMetric // R39; R40 uses the type of the target
	switch target := &metric.Target; {
	case (external || target.Type == AverageValueTarget) && target.AverageValueMilli != nil:
		result.TargetType, value = AverageValueTarget, *target.AverageValueMilli
	case (external || target.Type == ValueTarget) && target.ValueMilli != nil:
		result.TargetType, value = ValueTarget, *target.ValueMilli
	default:
		return "the metric's target has no value or average_value for its type"
	}
	result.TargetValue = value
	usage, failure := wholeUsage(metric, reading, result.TargetType)
	if failure != "" {
		return failure
	}
	if external && len(reading.ValuesMilli) > 1 {
		result.Series = int32(min(len(reading.ValuesMilli), math.MaxInt32))
	}
	if result.TargetType == ValueTarget {
		result.Current.ValueMilli = &usage
		if p.observation.SpecReplicas != 0 {
			result.Ready = RunningAndReady(p.observation.Instances)
		}
		failure = p.byValue(usage, value, result)
		p.activate(metric, usage, result)
		return failure
	}
	result.Total = usage
	p.byAverageValue(usage, value, result)
	p.activate(metric, usage, result)
	p.reportAverage(metric, usage, result)
	return ""
}

// activate replaces the proposal of a metric with 0 while the target has 0 replicas and the value is
// not above the metric's activation.
func (p *pass) activate(metric *MetricSpec, usage int64, result *MetricResult) {
	if metric.ActivationMilli != nil && p.observation.SpecReplicas == 0 && usage <= *metric.ActivationMilli {
		result.Proposal, result.Within, result.BaseCount, result.Rule = 0, false, 0, ""
		result.ActivationMilli = metric.ActivationMilli
	}
}

// wholeUsage returns the value of the metric in milli-units (R26, R42, R43).
func wholeUsage(metric *MetricSpec, reading *Reading, target TargetType) (usage int64, failure string) {
	switch {
	case metric.Type == ObjectMetric && reading.ValueMilli == nil:
		return 0, "the source returned no value"
	case metric.Type == ObjectMetric:
		return *reading.ValueMilli, ""
	case len(reading.ValuesMilli) == 0:
		return 0, "the source returned no value"
	case target == ValueTarget:
		return sumForValue(reading.ValuesMilli), ""
	default:
		return sumForAverage(reading.ValuesMilli), ""
	}
}

// ExternalTotal returns the sum of the values of an External metric in milli-units (R42, R43).
func ExternalTotal(metric *MetricSpec, values []int64) int64 {
	if metric.Target.AverageValueMilli == nil && metric.Target.ValueMilli != nil {
		return sumForValue(values)
	}
	return sumForAverage(values)
}

// sumForValue returns the sum, or math.MaxInt64 on overflow (R42).
func sumForValue(values []int64) (sum int64) {
	for _, value := range values {
		if value > 0 && sum > math.MaxInt64-value {
			return math.MaxInt64
		}
		sum += value
	}
	return sum
}

// sumForAverage returns the sum, or math.MaxInt64 if a partial sum is negative (R43).
func sumForAverage(values []int64) (sum int64) {
	for _, value := range values {
		if sum += value; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

// byValue implements R41.
func (p *pass) byValue(usage, target int64, result *MetricResult) string {
	ratio := float64(usage) / float64(target)
	result.Ratio = finitePointer(ratio)
	result.Rule = "R41"
	current := p.observation.SpecReplicas
	if current == 0 {
		result.BaseCount = 1
		result.Proposal = ceilToInt32(ratio)
		return ""
	}
	if result.Within = p.band.within(ratio); result.Within {
		result.Proposal = current
		return ""
	}
	if result.Ready < 0 {
		return "the target has no instances"
	}
	result.BaseCount = result.Ready
	result.Proposal = ceilToInt32(ratio * float64(result.Ready))
	return ""
}

// RunningAndReady returns the number of running and ready instances, including instances that are
// being deleted (R41). It returns -1 if there are no instances.
func RunningAndReady(instances []Instance) (count int32) {
	if len(instances) == 0 {
		return -1
	}
	for i := range instances {
		if instances[i].Phase == PhaseRunning && instances[i].Readiness == ReadinessTrue {
			count++
		}
	}
	return count
}

// byAverageValue implements R44. The observed count determines whether there is a change.
func (p *pass) byAverageValue(usage, target int64, result *MetricResult) {
	replicas := p.observation.StatusReplicas
	ratio := float64(usage) / (float64(target) * float64(replicas))
	result.Ratio = finitePointer(ratio)
	result.Rule = "R44"
	if result.Within = p.band.within(ratio); result.Within {
		result.Proposal = replicas
		return
	}
	result.Proposal = ceilToInt32(float64(usage) / float64(target))
}

// reportAverage sets the average in the status if there are instances (R45). At 0 replicas, a metric
// with an activation reports its total.
func (p *pass) reportAverage(metric *MetricSpec, usage int64, result *MetricResult) {
	replicas := p.observation.StatusReplicas
	if replicas == 0 && metric.ActivationMilli != nil {
		result.Current.ValueMilli = &usage
		return
	}
	if average, ok := p.settings.Kubernetes.averageWhole(metric.Type, usage, replicas); ok {
		result.Current.AverageValueMilli = &average
	}
}
