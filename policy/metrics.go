package policy

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
		p.evaluateMetric(i, &results[i])
		statuses[i] = results[i].Current
	}
	p.decision.Metrics = results
	p.decision.Status.Metrics = statuses
	p.fallBack()
}

func (p *pass) evaluateMetric(i int, result *MetricResult) {
	metric := &p.spec.Metrics[i]
	result.Type, result.Name, result.Task, result.Object = metric.Type, metric.Name, metric.Task, metric.Object
	result.ToleranceDown, result.ToleranceUp = recorded(p.band.down), recorded(p.band.up)
	if i >= len(p.observation.Metrics) {
		result.Error = "the observation has no reading of it"
		return
	}
	reading := &p.observation.Metrics[i]
	result.Warnings, result.Partial = reading.Warnings, reading.Partial
	if result.Error = reading.Error; result.Error != "" { // R26
		return
	}
	switch metric.Type {
	case ResourceMetric, ContainerResourceMetric, InstancesMetric:
		result.Error = p.evaluateUsage(metric, reading, result)
	case ObjectMetric, ExternalMetric:
		result.Error = p.evaluateWhole(metric, reading, result)
	default:
		result.Error = "there is no such type of metric"
	}
	if result.Error == "" && result.Partial != "" && result.Proposal < p.observation.SpecReplicas {
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

// failureReason is the reason for a failed metric (R77, R78).
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
		return "external metric " + metric.Name
	default:
		return "instances metric " + metric.Name
	}
}
