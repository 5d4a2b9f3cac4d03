package policy

func minReplicasOf(spec *Spec) int32 {
	if spec.MinReplicas == nil {
		return defaultMinReplicas
	}
	return *spec.MinReplicas
}

// hasWholeMetric reports whether a metric can be read without instances (R15, R51, R72).
func hasWholeMetric(spec *Spec) bool {
	for i := range spec.Metrics {
		if isWhole(&spec.Metrics[i]) {
			return true
		}
	}
	return false
}

func isWhole(metric *MetricSpec) bool {
	return metric.Type == ObjectMetric || metric.Type == ExternalMetric
}
