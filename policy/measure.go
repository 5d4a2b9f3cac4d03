package policy

import "time"

// Measured is the contribution of one instance to a metric.
type Measured struct {
	// Group is "ready", "unready", "missing" or "ignored" (R27).
	Group string `json:"group"`
	// ValueMilli is the measured value; nil if absent.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// Utilization is the value in percent of the request; nil if it does not apply.
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
			used := int32(sample.Milli * 100 / request)
			m.Utilization = &used
		}
	}
	return measured
}
