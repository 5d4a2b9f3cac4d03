package policy

import "slices"

// Steady reports whether later passes with the same settings, spec and observation make the same
// decision, except for its time, and only append their recommendation to the memory. That is the
// case if the metrics recommend the current count, and no part of the decision depends on time.
func (d *Decision) Steady() bool {
	return d.Case == CaseMetrics && d.Error == "" && d.DesiredReplicas == d.CurrentReplicas && *d.Recommendation == d.CurrentReplicas &&
		d.Outage == nil && d.Stabilization.Binding == nil &&
		!slices.ContainsFunc(d.Metrics, func(m MetricResult) bool { return m.Type != ObjectMetric && m.Type != ExternalMetric })
}
