package policy

// minReplicasOf is the lower bound of a spec (R9).
func minReplicasOf(spec *Spec) int32 {
	if spec.MinReplicas == nil {
		return defaultMinReplicas
	}
	return *spec.MinReplicas
}

// hasWholeMetric reports whether a spec has a metric that can be read without
// instances: an Object or External one (R15, R51, R72).
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
