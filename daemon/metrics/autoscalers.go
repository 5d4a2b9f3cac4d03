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

// family is a metric that has series for each autoscaler.
type family struct {
	name, help string
	kind       prometheus.ValueType
	// add sends the series of one autoscaler to the sink, sorted by label values.
	add func(s *sink, a *shown)
	// labels lists the label names in order, without the autoscaler's name.
	labels []string
}

func newFamily(name, help string, kind prometheus.ValueType, add func(s *sink, a *shown), labels ...string) *family {
	return &family{name: "hpad_autoscaler_" + name, help: help, kind: kind, add: add, labels: labels}
}

// ofMetrics returns a family with one series for each metric of an autoscaler. It skips metrics for
// which value returns false.
func ofMetrics(name, help string, value func(m *shownMetric) (float64, bool)) *family {
	return newFamily("metric_"+name, help, prometheus.GaugeValue, func(s *sink, a *shown) {
		s.metrics = a.metricsIn(s.metrics[:0])
		for i := range s.metrics {
			m := &s.metrics[i]
			if value, ok := value(m); ok {
				s.add(value, m.index, m.spec.Name, string(m.targetType), string(m.spec.Type))
			}
		}
	}, "index", "metric", "target_type", "type")
}

// families contains the metrics of each autoscaler, sorted by name.
var families = sortedFamilies(
	newFamily("info", "Target of the autoscaler; always 1.", prometheus.GaugeValue, func(s *sink, a *shown) {
		fleet, target, _ := strings.Cut(a.reference, "/")
		s.add(1, fleet, a.kind, target)
	}, "fleet", "kind", "target"),
	newFamily("current_replicas", "Replicas before the write of the last pass.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.current))
	}),
	newFamily("desired_replicas", "Replicas that the last pass computed; absent before the first computation.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.computed {
			s.add(float64(a.desired))
		}
	}),
	newFamily("min_replicas", "Lower bound on replicas.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.min != nil {
			s.add(float64(*a.min))
		}
	}),
	newFamily("max_replicas", "Upper bound on replicas.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.max))
	}),
	newFamily("platform_max_replicas", "The platform's own upper bound on replicas; absent without a bound, or with compat = \"strict\".", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.platformMax != nil {
			s.add(float64(*a.platformMax))
		}
	}),
	newFamily("instances", "Instances of the target in the last pass, by state.", prometheus.GaugeValue, func(s *sink, a *shown) {
		n := &a.instances
		s.add(float64(n.Deleting), "deleting")
		s.add(float64(n.Failed), "failed")
		s.add(float64(n.Pending), "pending")
		s.add(float64(n.Ready), "ready")
		s.add(float64(n.Succeeded), "succeeded")
		s.add(float64(n.Unready), "unready")
	}, "state"),
	newFamily("recommended_replicas", "Replicas that the metrics requested in the last pass, before stabilization and limits; absent if no metric was read.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.recommended != nil {
			s.add(float64(*a.recommended))
		}
	}),
	newFamily("condition", "State of a condition: 1 for True, 0 for False, -1 for Unknown.", prometheus.GaugeValue, conditions, "condition"),
	newFamily("last_scale_timestamp_seconds", "Time of the last write of the count; absent before the first.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.time(a.scaled)
	}),
	newFamily("last_evaluation_timestamp_seconds", "Tick of the last complete pass; absent before the first.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.time(a.evaluated)
	}),
	newFamily("last_evaluation_duration_seconds", "Duration of the last pass.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(a.duration)
	}),
	newFamily("sync_period_seconds", "Evaluation period of the autoscaler.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(a.period)
	}),
	newFamily("reason", "Reason of the last pass, or of a missing pass at the last tick; always 1, absent before the first pass.", prometheus.GaugeValue, func(s *sink, a *shown) {
		if a.reason != "" {
			s.add(1, a.reason)
		}
	}, "reason"),
	newFamily("failing", "Whether the last pass ended with an error: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.failing))
	}),
	newFamily("held", "Whether the platform currently rejects changes of the count: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.held))
	}),
	newFamily("disabled", "Whether autoscaling is off because the target was set to 0 replicas: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.disabled))
	}),
	newFamily("paused", "Whether a pause holds changes of the count in at least one direction: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.paused))
	}),
	newFamily("paused_until_timestamp_seconds", "End of the last active pause; absent without a pause, or if a pause has no end.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.time(a.pausedUntil)
	}),
	newFamily("mode", "Configured mode of the autoscaler; always 1.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(1, a.mode)
	}, "mode"),
	newFamily("unevaluated", "Whether three periods passed without a complete pass, or the autoscaler is quarantined: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.unevaluated))
	}),
	newFamily("quarantined", "Whether the autoscaler is quarantined after repeated panics, or because the state store rejects its record: 1 or 0.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(truth(a.quarantined))
	}),
	newFamily("late_passes_total", "Ticks during an earlier pass.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.late.Load()))
	}),
	newFamily("panics_total", "Passes that panicked.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.panics.Load()))
	}),
	newFamily("foreign_changes_total", "Changes of the count by other writers.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.foreign.Load()))
	}),
	newFamily("doubted_readings_total", "Readings that the guard suspected.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.doubted.Load()))
	}),
	newFamily("reversals_total", "Writes of the count in the opposite direction of the previous write.", prometheus.CounterValue, func(s *sink, a *shown) {
		s.add(float64(a.counts.reversals.Load()))
	}),
	newFamily("draining_instances", "Instances that are being drained, or removed after a drain.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.draining))
	}),
	newFamily("overdue_drains", "Drains in progress after their deadline.", prometheus.GaugeValue, func(s *sink, a *shown) {
		s.add(float64(a.overdue))
	}),

	ofMetrics("value", "Current value of a metric, in the unit of its target; absent if it failed.", func(m *shownMetric) (float64, bool) {
		if !m.succeeded() {
			return 0, false
		}
		current := &m.result.Current
		return targetValueOf(m.targetType, current.AverageUtilization, current.AverageValueMilli, current.ValueMilli)
	}),
	ofMetrics("target", "Target of a metric: percent of the request for Utilization, otherwise in the unit of the metric.", func(m *shownMetric) (float64, bool) {
		target := &m.spec.Target
		return targetValueOf(m.targetType, target.AverageUtilization, target.AverageValueMilli, target.ValueMilli)
	}),
	ofMetrics("proposed_replicas", "Replicas that a metric alone requested in the last pass; absent if it failed without an on_missing proposal.", func(m *shownMetric) (float64, bool) {
		if m.result == nil || !m.result.Proposes() {
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

// shown is the part of an autoscaler's view that a scrape needs.
type shown struct {
	// name is the label value, and escaped is its form in the text format.
	name, escaped   string
	reference, kind string
	// reason is the reason code of the last pass, or "" before the first pass.
	reason     string
	counts     *Autoscaler
	conditions []policy.Condition
	specs      []policy.MetricSpec
	// results contains the results of the last pass, or nil before the first pass.
	results                                           []policy.MetricResult
	min, recommended, platformMax                     *int32
	current, desired, max                             int32
	draining, overdue                                 int32
	instances                                         api.Instances
	scaled, evaluated, pausedUntil                    instant
	duration, period                                  float64
	failing, held, disabled, unevaluated, quarantined bool
	// computed reports whether a pass has computed the desired count.
	paused, computed bool
	mode             string
}

// instant is a time in milliseconds since 1970.
type instant struct {
	milli int64
	known bool
}

func instantOf(at time.Time) instant { return instant{milli: at.UnixMilli(), known: !at.IsZero()} }

type shownMetric struct {
	spec *policy.MetricSpec
	// result is nil if the last pass did not read the metric.
	result     *policy.MetricResult
	targetType policy.TargetType
	index      string
}

func (m *shownMetric) succeeded() bool { return m.result != nil && m.result.Error == "" }

// show returns all autoscalers sorted by name.
func (m *Metrics) show() []shown {
	show := m.views.Load()
	if show == nil {
		return nil
	}
	now := time.Now()
	all := make([]shown, 0, m.count())
	for view := range (*show)() {
		counts := m.find(view.Name)
		if counts == nil {
			counts = &Autoscaler{}
		}
		all = append(all, shownOf(&view, counts, now))
	}
	slices.SortFunc(all, func(a, b shown) int { return cmp.Compare(a.name, b.name) })
	return all
}

// endOf returns the end of the pause that ends last. It is unknown if any pause has no end.
func endOf(pauses []policy.Pause) instant {
	var last instant
	for i := range pauses {
		end := instantOf(pauses[i].Until)
		if !end.known {
			return end
		}
		if !last.known || end.milli > last.milli {
			last = end
		}
	}
	return last
}

func shownOf(view *api.Autoscaler, counts *Autoscaler, now time.Time) shown {
	name := validText(view.Name)
	a := shown{
		name: name, escaped: labelEscapes.Replace(name), reference: view.Reference, kind: view.Kind,
		counts: counts, conditions: view.Status.Conditions, specs: view.Spec.Metrics,
		min: view.Spec.MinReplicas, max: view.Spec.MaxReplicas,
		current: view.Status.CurrentReplicas, desired: view.Status.DesiredReplicas, computed: view.DesiredKnown(),
		instances: view.Instances, scaled: instantOf(view.Status.LastScaleTime), evaluated: instantOf(view.Evaluation.Last),
		reason: view.Evaluation.Reason, duration: view.Evaluation.DurationSeconds, period: view.SyncPeriodSeconds,
		failing: view.Evaluation.Error != "", disabled: view.Status.Disabled(),
		paused: len(view.Pauses) > 0, pausedUntil: endOf(view.Pauses), mode: view.Mode.String(),
		unevaluated: view.Evaluation.Unevaluated, quarantined: now.Before(view.Evaluation.QuarantinedUntil),
	}
	if decision := view.Decision; decision != nil {
		a.results, a.recommended, a.platformMax, a.held = decision.Metrics, decision.Recommendation, decision.PlatformMax, decision.Hold != nil
	}
	for i := range view.Drains {
		if view.Drains[i].Removes() {
			a.draining++
		}
		if view.Drains[i].Overdue(now) {
			a.overdue++
		}
	}
	return a
}

// metricsIn appends the autoscaler's metrics, sorted by their labels.
func (a *shown) metricsIn(metrics []shownMetric) []shownMetric {
	for i := range a.specs {
		spec := &a.specs[i]
		var result *policy.MetricResult
		if i < len(a.results) {
			result = &a.results[i]
		}
		metrics = append(metrics, shownMetric{spec: spec, result: result, targetType: targetTypeOf(spec, result), index: strconv.Itoa(i)})
	}
	slices.SortFunc(metrics, func(a, b shownMetric) int {
		return cmp.Compare(a.index, b.index)
	})
	return metrics
}

func conditions(s *sink, a *shown) {
	byType := func(a, b policy.Condition) int { return cmp.Compare(a.Type, b.Type) }
	conditions := a.conditions
	if !slices.IsSortedFunc(conditions, byType) { // the view owns the slice
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

// targetTypeOf returns the target type that the pass used, or else the one in the spec.
func targetTypeOf(spec *policy.MetricSpec, result *policy.MetricResult) policy.TargetType {
	target := &spec.Target
	switch {
	case result != nil && result.TargetType != "":
		return result.TargetType
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

func targetValueOf(targetType policy.TargetType, utilization *int32, averageMilli, valueMilli *int64) (float64, bool) {
	milli := valueMilli
	switch targetType {
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
