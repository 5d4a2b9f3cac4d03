package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// family is a metric of which every autoscaler has series, or none.
type family struct {
	name, help string
	kind       prometheus.ValueType
	// add gives the sink the series of one autoscaler, in the order of the values
	// of their labels.
	add func(s *sink, a *shown)
	// labels are those besides the autoscaler's name, in their order.
	labels []string
	desc   *prometheus.Desc
}

func newFamily(name, help string, kind prometheus.ValueType, add func(s *sink, a *shown), labels ...string) *family {
	name = "hpad_autoscaler_" + name
	return &family{
		name: name, help: help, kind: kind, add: add, labels: labels,
		desc: prometheus.NewDesc(name, help, append([]string{"autoscaler"}, labels...), nil),
	}
}

// ofMetrics is a family with a series for each metric of an autoscaler for which
// value returns true.
func ofMetrics(name, help string, value func(m *shownMetric) (float64, bool)) *family {
	return newFamily("metric_"+name, help, prometheus.GaugeValue, func(s *sink, a *shown) {
		for i := range a.metrics {
			m := &a.metrics[i]
			if value, ok := value(m); ok {
				s.add(value, string(m.goal), m.index, m.spec.Name, string(m.spec.Type))
			}
		}
	}, "goal", "index", "metric", "type")
}

// families are the metrics of each autoscaler, in the order of their names.
var families = sortedFamilies(
	newFamily("info", "What the autoscaler scales; always 1.", prometheus.GaugeValue, func(s *sink, a *shown) {
		fleet, target, _ := strings.Cut(a.view.Reference, "/")
		s.add(1, fleet, a.view.Kind, target)
	}, "fleet", "kind", "target"),
	newFamily("current_replicas", "Replicas before the write of the last pass.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.view.Status.CurrentReplicas))
	}),
	newFamily("desired_replicas", "Replicas that the last pass wanted.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.view.Status.DesiredReplicas))
	}),
	newFamily("min_replicas", "Lower bound on replicas.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.view.Spec.MinReplicas != nil {
			s.add(float64(*a.view.Spec.MinReplicas))
		}
	}),
	newFamily("max_replicas", "Upper bound on replicas.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.view.Spec.MaxReplicas))
	}),
	newFamily("instances", "Instances of the target that the last pass saw, by state.", prometheus.GaugeValue, func(s *sink, a *shown) {
		n := &a.view.Instances
		s.add(float64(n.Deleting), "deleting")
		s.add(float64(n.Failed), "failed")
		s.add(float64(n.Pending), "pending")
		s.add(float64(n.Ready), "ready")
		s.add(float64(n.Succeeded), "succeeded")
		s.add(float64(n.Unready), "unready")
	}, "state"),
	newFamily("recommended_replicas", "Replicas that the metrics asked for in the last pass, before stabilization and limits; absent when no metric was looked at or none could be.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.view.Decision != nil && a.view.Decision.Recommendation != nil {
			s.add(float64(*a.view.Decision.Recommendation))
		}
	}),
	newFamily("condition", "State of a condition: 1 for True, 0 for False, -1 for Unknown.", prometheus.GaugeValue, conditions, "condition"),
	newFamily("last_scale_timestamp_seconds", "When the count was last written; absent before the first time.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.time(a.view.Status.LastScaleTime)
	}),
	newFamily("last_evaluation_timestamp_seconds", "The tick of the last pass that ended; absent before the first.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.time(a.view.Evaluation.Last)
	}),
	newFamily("last_evaluation_duration_seconds", "How long the last pass took.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(a.view.Evaluation.DurationSeconds)
	}),
	newFamily("sync_period_seconds", "How often the autoscaler is evaluated.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(a.view.SyncPeriodSeconds)
	}),
	newFamily("failing", "Whether the last pass ended with an error: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.view.Evaluation.Error != ""))
	}),
	newFamily("held", "Whether the platform does not want the count to be written: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.view.Decision != nil && a.view.Decision.Hold != nil))
	}),
	newFamily("disabled", "Whether autoscaling is off because the target has 0 replicas that hpad did not set: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.view.Status.Disabled()))
	}),
	newFamily("unevaluated", "Whether three periods went by without a pass that ended: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.view.Evaluation.Unevaluated))
	}),
	newFamily("quarantined", "Whether the autoscaler is left alone after repeated panics: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.now.Before(a.view.Evaluation.QuarantinedUntil)))
	}),
	newFamily("late_passes_total", "Ticks at which a pass was still under way.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.late.Load()))
	}),
	newFamily("panics_total", "Passes that panicked.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.panics.Load()))
	}),
	newFamily("foreign_changes_total", "Times that somebody else changed the count.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.foreign.Load()))
	}),
	newFamily("doubted_readings_total", "Readings that the guard did not believe.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.doubted.Load()))
	}),
	newFamily("reversals_total", "Times that the count was written in the other direction than the time before.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.reversals.Load()))
	}),
	newFamily("draining_instances", "Instances that a drain takes the work of, or that are being removed after it.", prometheus.GaugeValue, func(s *sink, a *shown) {
		draining := 0
		for i := range a.view.Drains {
			if a.view.Drains[i].Removes() {
				draining++
			}
		}
		s.add(float64(draining))
	}),
	newFamily("overdue_drains", "Drains that are not over although their deadline has passed.", prometheus.GaugeValue, func(s *sink, a *shown) {
		overdue := 0
		for i := range a.view.Drains {
			if a.view.Drains[i].Overdue(a.now) {
				overdue++
			}
		}
		s.add(float64(overdue))
	}),

	ofMetrics("value", "Current value of a metric, in the unit of its goal; absent when it failed.", func(m *shownMetric) (float64, bool) {
		if !m.succeeded() {
			return 0, false
		}
		current := &m.result.Current
		return goalValue(m.goal, current.AverageUtilization, current.AverageValueMilli, current.ValueMilli)
	}),
	ofMetrics("goal", "Goal of a metric: percent of the requests for Utilization, else the metric's own unit.", func(m *shownMetric) (float64, bool) {
		goal := &m.spec.Target
		return goalValue(m.goal, goal.AverageUtilization, goal.AverageValueMilli, goal.ValueMilli)
	}),
	ofMetrics("proposed_replicas", "Replicas that a metric alone asked for in the last pass; absent when it failed.", func(m *shownMetric) (float64, bool) {
		if !m.succeeded() {
			return 0, false
		}
		return float64(m.result.Proposal), true
	}),
	ofMetrics("failed", "Whether a metric failed in the last pass: 1 or 0.", func(m *shownMetric) (float64, bool) {
		if m.result == nil {
			return 0, false
		}
		return truth(m.result.Error != ""), true
	}),
)

func sortedFamilies(families ...*family) []*family {
	slices.SortFunc(families, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	return families
}

type shown struct {
	view    *api.Autoscaler
	counts  *Autoscaler
	metrics []shownMetric
	now     time.Time
	// name is the label of that name, opening the beginning of all labels as text.
	name, opening string
}

type shownMetric struct {
	spec *policy.MetricSpec
	// result is nil where the last pass did not look at it.
	result *policy.MetricResult
	goal   policy.TargetType
	index  string
}

func (m *shownMetric) succeeded() bool { return m.result != nil && m.result.Error == "" }

// show returns all autoscalers in the order of their names.
func (m *Metrics) show() []shown {
	var views []api.Autoscaler
	if show := m.views.Load(); show != nil {
		views = (*show)()
	}
	now := time.Now()
	all := make([]shown, len(views))
	for i := range views {
		view := &views[i]
		counts := m.find(view.Name)
		if counts == nil {
			counts = &Autoscaler{}
		}
		name := validText(view.Name)
		all[i] = shown{
			view: view, counts: counts, metrics: showMetrics(view), now: now,
			name: name, opening: string(appendLabel(nil, '{', "autoscaler", name)),
		}
	}
	slices.SortFunc(all, func(a, b shown) int { return cmp.Compare(a.name, b.name) })
	return all
}

// showMetrics returns the metrics of an autoscaler in the order of their labels.
func showMetrics(view *api.Autoscaler) []shownMetric {
	metrics := make([]shownMetric, len(view.Spec.Metrics))
	for i := range metrics {
		spec := &view.Spec.Metrics[i]
		var result *policy.MetricResult
		if view.Decision != nil && i < len(view.Decision.Metrics) {
			result = &view.Decision.Metrics[i]
		}
		metrics[i] = shownMetric{spec: spec, result: result, goal: goalOf(spec, result), index: strconv.Itoa(i)}
	}
	slices.SortFunc(metrics, func(a, b shownMetric) int {
		return cmp.Or(cmp.Compare(a.goal, b.goal), cmp.Compare(a.index, b.index))
	})
	return metrics
}

func conditions(s *sink, a *shown) {
	byType := func(a, b policy.Condition) int { return cmp.Compare(a.Type, b.Type) }
	conditions := a.view.Status.Conditions
	if !slices.IsSortedFunc(conditions, byType) { // the view is not ours to sort
		conditions = slices.SortedFunc(slices.Values(conditions), byType)
	}
	for i := range conditions {
		condition := &conditions[i]
		value := -1.0
		switch condition.Status {
		case policy.ConditionTrue:
			value = 1
		case policy.ConditionFalse:
			value = 0
		}
		s.add(value, string(condition.Type))
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// goalOf returns which of the goals is used: the one that the pass says it used,
// or the one that the spec has.
func goalOf(spec *policy.MetricSpec, result *policy.MetricResult) policy.TargetType {
	target := &spec.Target
	switch {
	case result != nil && result.Goal != "":
		return result.Goal
	case spec.Type == policy.ObjectMetric && target.Type != "":
		return target.Type
	case target.AverageValueMilli != nil: // R31, R39
		return policy.AverageValueTarget
	case target.AverageUtilization != nil:
		return policy.UtilizationTarget
	default:
		return policy.ValueTarget
	}
}

func goalValue(goal policy.TargetType, utilization *int32, averageMilli, valueMilli *int64) (float64, bool) {
	milli := valueMilli
	switch goal {
	case policy.UtilizationTarget:
		if utilization == nil {
			return 0, false
		}
		return float64(*utilization), true
	case policy.AverageValueTarget:
		milli = averageMilli
	}
	if milli == nil {
		return 0, false
	}
	return float64(*milli) / 1000, true
}
