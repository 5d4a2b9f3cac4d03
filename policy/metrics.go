package policy

import "strconv"

// finitePointer returns nil if a number is not finite.
func finitePointer(f float64) *float64 {
	if !finite(f) {
		return nil
	}
	return &f
}

// evaluateMetrics evaluates all metrics in order (R46, R76) and applies fallbacks.
func (p *pass) evaluateMetrics() {
	metrics := p.spec.Metrics
	results := make([]MetricResult, len(metrics))
	statuses := make([]MetricStatus, len(metrics))
	for i := range metrics {
		p.evaluateMetric(i, results)
		statuses[i] = results[i].Current
	}
	p.decision.Metrics = results
	p.decision.Status.Metrics = statuses
	p.fallBack()
}

func (p *pass) evaluateMetric(i int, results []MetricResult) {
	metric, result := &p.spec.Metrics[i], &results[i]
	_, combined := inputsOf(&p.spec)
	result.Input = combined && metric.Formula == ""
	result.Type, result.Name, result.Task, result.Object = metric.Type, metric.Name, metric.Task, metric.Object
	result.ToleranceDown, result.ToleranceUp = recorded(p.band.down), recorded(p.band.up)
	reading := &Reading{Error: "the reading is missing"}
	switch {
	case metric.Formula != "":
		reading = &Reading{} // the readings of the inputs are sufficient
	case i < len(p.observation.Metrics):
		reading = &p.observation.Metrics[i]
	}
	result.Warnings, result.Partial = reading.Warnings, reading.Partial
	result.Binary, result.Current.Empty = metric.Target.Binary, reading.Empty
	if result.Error = reading.Error; result.Error != "" { // R26
		return
	}
	switch metric.Type {
	case ResourceMetric, ContainerResourceMetric, InstancesMetric:
		result.Error = p.evaluateUsage(metric, reading, result)
	case ObjectMetric, ExternalMetric:
		if metric.Formula != "" {
			result.Error = p.evaluateFormula(metric, results, result)
		} else {
			result.Error = p.evaluateWhole(metric, reading, result)
		}
	default:
		result.Error = "unknown metric type"
	}
	if result.Error == "" && result.Partial != "" && !result.Input && result.Proposal < p.observation.SpecReplicas {
		result.Error = "a partial result does not scale down: " + result.Partial
		result.Proposal, result.Within, result.BaseCount, result.Rule = 0, false, 0, ""
	}
	if result.Error != "" { // R76: a failed metric leaves an empty entry
		result.Current = MetricStatus{}
		return
	}
	current := &result.Current
	current.Type, current.Name, current.Task, current.Object = metric.Type, metric.Name, metric.Task, metric.Object
}

// failureReason returns the reason for a failed metric (R77, R78).
func failureReason(kind MetricType) string {
	switch kind {
	case ResourceMetric:
		return "FailedGetResourceMetric"
	case ContainerResourceMetric:
		return "FailedGetContainerResourceMetric"
	case InstancesMetric:
		return "FailedGetPodsMetric"
	case ObjectMetric:
		return "FailedGetObjectMetric"
	case ExternalMetric:
		return "FailedGetExternalMetric"
	default:
		return "InvalidMetricSourceType"
	}
}

func describeMetric(metric *MetricSpec) string {
	switch metric.Type {
	case ResourceMetric:
		return "resource " + metric.Name
	case ContainerResourceMetric:
		return "resource " + metric.Name + " of task " + metric.Task
	case ObjectMetric:
		return "object metric " + metric.Name + " of " + metric.Object
	case ExternalMetric:
		if metric.Formula != "" {
			return "formula " + metric.Formula
		}
		return "external metric " + metric.Name
	default:
		return "instances metric " + metric.Name
	}
}

// combineMetrics merges the proposals of all metrics into Raw (R46, R47). After a failure it
// returns false, and the decision contains the error.
func (p *pass) combineMetrics() bool {
	d := &p.decision
	best, winner, failed, firstFailed, counted := int32(0), -1, 0, -1, 0
	for i := range d.Metrics {
		result := &d.Metrics[i]
		if result.Error != "" {
			p.warn(failureReason(result.Type), describeMetric(&p.spec.Metrics[i])+": "+result.Error) // R48
		}
		if !p.counts(i) {
			continue
		}
		counted++
		if !result.Proposes() {
			if failed++; firstFailed < 0 {
				firstFailed = i
			}
			continue
		}
		if best == 0 || result.Proposal > best { // R46
			best, winner = result.Proposal, i
		}
	}
	d.Error = p.describeFailures()
	if failed == counted || failed > 0 && best < d.CurrentReplicas { // R47
		p.metricsFailed(failed == counted, firstFailed, best)
		return false
	}
	d.Raw, d.Winner = &best, &winner
	if d.Metrics[winner].FallsBack() {
		p.set(ScalingActive, ConditionTrue, metricMissing, "the count was computed from "+describeOnMissing(&p.spec.Metrics[winner]))
		return true
	}
	p.set(ScalingActive, ConditionTrue, "ValidMetricFound", "the count was computed from "+describeMetric(&p.spec.Metrics[winner]))
	return true
}

// describeFailures returns an error for all failed metrics, including those with a fallback. It
// names the formula only if no input failed.
func (p *pass) describeFailures() string {
	inputs, combined := inputsOf(&p.spec)
	failed, first := 0, 0
	for i := range inputs {
		if p.decision.Metrics[i].Error == "" {
			continue
		}
		if failed++; failed == 1 {
			first = i
		}
	}
	switch last := len(inputs); {
	case failed > 0:
		return strconv.Itoa(failed) + " of " + strconv.Itoa(last) + " metrics failed, first " +
			describeMetric(&p.spec.Metrics[first]) + ": " + p.decision.Metrics[first].Error
	case combined && p.decision.Metrics[last].Error != "":
		return "the " + describeMetric(&p.spec.Metrics[last]) + " failed: " + p.decision.Metrics[last].Error
	}
	return ""
}

// metricsFailed ends a pass in which failed metrics prevented a recommendation (R25.5, R75).
func (p *pass) metricsFailed(all bool, first int, best int32) {
	d := &p.decision
	d.Case = CaseMetricsFailed
	reason := "InvalidMetricSourceType"
	if first >= 0 {
		reason = failureReason(d.Metrics[first].Type)
	} else {
		d.Error = "the autoscaler has no metric"
	}
	p.set(ScalingActive, ConditionFalse, reason, "the count could not be computed: "+d.Error)
	d.Message = "no change: " + d.Error
	if !all {
		d.Message = "no change: the other metrics recommend " + itoa(best) + " instead of " + itoa(d.CurrentReplicas) +
			" replicas, but hpad does not scale down while a metric fails: " + d.Error
	}
	d.Status.DesiredReplicas = p.status.DesiredReplicas
	p.warn(failedComputeReason, d.Error)
}
