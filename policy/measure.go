package policy

import "time"

// Measured is what one instance adds to a metric on instances.
type Measured struct {
	// Group is how it counts (R27): "ready", "unready", "missing" or "ignored".
	Group string `json:"group"`
	// ValueMilli is what was measured of it; nil when nothing was.
	ValueMilli *int64 `json:"value_milli,omitempty"`
	// Utilization is that in percent of what it requests; nil where the metric's target
	// is none, or it requests nothing.
	Utilization *int32 `json:"utilization,omitempty"`
}

// Measure returns what each of the instances adds to a Resource, ContainerResource or
// Instances metric at now, as a pass counts them.
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
