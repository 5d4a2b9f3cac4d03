package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// family is a metric that has series for each autoscaler.
type family struct {
	name, help string
	kind       dto.MetricType
	// labels lists the label names, after the autoscaler's name.
	labels []string
	// each calls add for each series of an autoscaler, with the values of labels.
	each func(v *view, add addFunc)
}

type addFunc func(value float64, labels ...string)

func newFamily(name, help string, each func(v *view, add addFunc), labels ...string) *family {
	return &family{name: "hpad_autoscaler_" + name, help: help, kind: dto.MetricType_GAUGE, labels: labels, each: each}
}

func number(name, help string, value func(v *view) float64) *family {
	return newFamily(name, help, func(v *view, add addFunc) { add(value(v)) })
}

func truthOf(name, help string, value func(v *view) bool) *family {
	return newFamily(name, help, func(v *view, add addFunc) { add(truth(value(v))) })
}

func optional(name, help string, value func(v *view) *int32) *family {
	return newFamily(name, help, func(v *view, add addFunc) {
		if n := value(v); n != nil {
			add(float64(*n))
		}
	})
}

// timestamp returns a family whose values are times. A zero time produces no series.
func timestamp(name, help string, value func(v *view) time.Time) *family {
	return newFamily(name, help, func(v *view, add addFunc) {
		if at := value(v); !at.IsZero() {
			add(float64(at.UnixMilli()) / 1000)
		}
	})
}

func total(name, help string, value func(a *Autoscaler) *atomic.Uint64) *family {
	f := number(name, help, func(v *view) float64 { return float64(value(v.counts).Load()) })
	f.kind = dto.MetricType_COUNTER
	return f
}

// ofMetrics returns a family with one series for each metric of an autoscaler for which value
// returns true. The parameter result is nil if the last pass did not read the metric.
func ofMetrics(name, help string, value func(spec *policy.MetricSpec, result *policy.MetricResult) (float64, bool)) *family {
	return newFamily("metric_"+name, help, func(v *view, add addFunc) {
		for i := range v.Spec.Metrics {
			spec := &v.Spec.Metrics[i]
			var result *policy.MetricResult
			if v.Decision != nil && i < len(v.Decision.Metrics) {
				result = &v.Decision.Metrics[i]
			}
			if n, ok := value(spec, result); ok {
				add(n, strconv.Itoa(i), spec.Name, string(targetTypeOf(spec, result)), string(spec.Type))
			}
		}
	}, "index", "metric", "target_type", "type")
}

// families contains the metrics of each autoscaler.
var families = []*family{
	newFamily("info", "Target of the autoscaler; always 1.", func(v *view, add addFunc) {
		fleet, target, _ := strings.Cut(v.Reference, "/")
		add(1, fleet, v.Kind, target)
	}, "fleet", "kind", "target"),
	number("current_replicas", "Replicas that the last pass read, before any write.", func(v *view) float64 { return float64(v.Status.CurrentReplicas) }),
	newFamily("desired_replicas", "Replicas that the last pass computed; absent before the first computation.", func(v *view, add addFunc) {
		if v.DesiredKnown() {
			add(float64(v.Status.DesiredReplicas))
		}
	}),
	optional("min_replicas", "Lower bound on replicas.", func(v *view) *int32 { return v.Spec.MinReplicas }),
	number("max_replicas", "Upper bound on replicas.", func(v *view) float64 { return float64(v.Spec.MaxReplicas) }),
	optional("platform_max_replicas", "The platform's own upper bound on replicas; absent without a bound, or with compat = \"strict\".", func(v *view) *int32 { return v.decision().PlatformMax }),
	newFamily("instances", "Instances of the target in the last pass, by state.", func(v *view, add addFunc) {
		n := &v.Instances
		add(float64(n.Deleting), "deleting")
		add(float64(n.Failed), "failed")
		add(float64(n.Pending), "pending")
		add(float64(n.Ready), "ready")
		add(float64(n.Succeeded), "succeeded")
		add(float64(n.Unready), "unready")
	}, "state"),
	optional("recommended_replicas", "Replicas that the metrics recommended in the last pass, before stabilization and limits; absent if no metric was read.", func(v *view) *int32 { return v.decision().Recommendation }),
	newFamily("condition", "State of a condition: 1 for True, 0 for False, -1 for Unknown.", conditions, "condition"),
	timestamp("last_scale_timestamp_seconds", "Time of the last write of the count; absent before the first write.", func(v *view) time.Time { return v.Status.LastScaleTime }),
	timestamp("last_evaluation_timestamp_seconds", "Tick of the last complete pass; absent before the first pass.", func(v *view) time.Time { return v.Evaluation.Last }),
	number("last_evaluation_duration_seconds", "Duration of the last pass.", func(v *view) float64 { return v.Evaluation.DurationSeconds }),
	number("sync_period_seconds", "Evaluation period of the autoscaler.", func(v *view) float64 { return v.SyncPeriodSeconds }),
	newFamily("reason", "Reason of the last pass, or of the last tick if it had no pass; the value is always 1; absent before the first tick.", func(v *view, add addFunc) {
		if v.Evaluation.Reason != "" {
			add(1, v.Evaluation.Reason)
		}
	}, "reason"),
	truthOf("failing", "Whether the last pass ended with an error: 1 or 0.", func(v *view) bool { return v.Evaluation.Error != "" }),
	truthOf("held", "Whether the target currently accepts no change of the count: 1 or 0.", func(v *view) bool { return v.decision().Hold != nil }),
	truthOf("disabled", "Whether autoscaling is off because the target was set to 0 replicas: 1 or 0.", func(v *view) bool { return v.Status.Disabled() }),
	truthOf("paused", "Whether a pause holds changes of the count in at least one direction: 1 or 0.", func(v *view) bool { return len(v.Pauses) > 0 }),
	timestamp("paused_until_timestamp_seconds", "End of the last active pause; absent without a pause, or if a pause has no end.", func(v *view) time.Time { return endOf(v.Pauses) }),
	newFamily("mode", "Configured mode of the autoscaler; always 1.", func(v *view, add addFunc) { add(1, v.Mode.String()) }, "mode"),
	truthOf("unevaluated", "Whether three periods passed without a complete pass, or the autoscaler is quarantined: 1 or 0.", func(v *view) bool { return v.Evaluation.Unevaluated }),
	truthOf("quarantined", "Whether the autoscaler is quarantined after repeated panics, or because the state store rejects its record: 1 or 0.", func(v *view) bool { return v.now.Before(v.Evaluation.QuarantinedUntil) }),
	total("late_passes_total", "Ticks at which an earlier pass was still running.", func(a *Autoscaler) *atomic.Uint64 { return &a.late }),
	total("panics_total", "Passes that panicked.", func(a *Autoscaler) *atomic.Uint64 { return &a.panics }),
	total("foreign_changes_total", "Changes of the count by other writers.", func(a *Autoscaler) *atomic.Uint64 { return &a.foreign }),
	total("doubted_readings_total", "Readings that the guard did not accept.", func(a *Autoscaler) *atomic.Uint64 { return &a.doubted }),
	total("reversals_total", "Writes of the count in the direction opposite to the previous write.", func(a *Autoscaler) *atomic.Uint64 { return &a.reversals }),
	number("draining_instances", "Instances that are being drained, or removed after a drain.", func(v *view) float64 { return v.drains((*drain.Operation).Removes) }),
	number("overdue_drains", "Drains past their deadline.", func(v *view) float64 {
		return v.drains(func(d *drain.Operation) bool { return d.Overdue(v.now) })
	}),
	ofMetrics("value", "Current value of a metric, in the unit of its target; absent if it failed.", func(spec *policy.MetricSpec, result *policy.MetricResult) (float64, bool) {
		if result == nil || result.Error != "" {
			return 0, false
		}
		current := &result.Current
		return targetValueOf(targetTypeOf(spec, result), current.AverageUtilization, current.AverageValueMilli, current.ValueMilli)
	}),
	ofMetrics("target", "Target of a metric: percent of the request or limit for Utilization, otherwise in the unit of the metric.", func(spec *policy.MetricSpec, result *policy.MetricResult) (float64, bool) {
		target := &spec.Target
		return targetValueOf(targetTypeOf(spec, result), target.AverageUtilization, target.AverageValueMilli, target.ValueMilli)
	}),
	ofMetrics("proposed_replicas", "Replicas that a metric alone requested in the last pass; absent if it failed without an on_missing proposal.", func(_ *policy.MetricSpec, result *policy.MetricResult) (float64, bool) {
		if result == nil || !result.Proposes() {
			return 0, false
		}
		return float64(result.Proposal), true
	}),
	ofMetrics("failed", "Whether a metric failed in the last pass: 1 or 0.", func(_ *policy.MetricSpec, result *policy.MetricResult) (float64, bool) {
		return truth(result != nil && result.Error != ""), result != nil
	}),
}

// view is the state of an autoscaler during one scrape.
type view struct {
	api.Autoscaler
	// label is the autoscaler's name as a label.
	label  *dto.LabelPair
	counts *Autoscaler
	now    time.Time
}

// allViews returns the views of all autoscalers, sorted by name.
func (m *Metrics) allViews(cache labelCache) []view {
	show := m.views.Load()
	if show == nil {
		return nil
	}
	now := time.Now()
	all := make([]view, 0, m.count())
	for one := range (*show)() {
		counts := m.find(one.Name)
		if counts == nil {
			counts = &Autoscaler{}
		}
		all = append(all, view{Autoscaler: one, label: cache.get("autoscaler", one.Name), counts: counts, now: now})
	}
	slices.SortFunc(all, func(a, b view) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// decision returns the last decision, or an empty decision if there is none.
func (v *view) decision() *policy.Decision { return cmp.Or(v.Decision, &policy.Decision{}) }

// drains counts the drain operations that match a condition.
func (v *view) drains(matches func(*drain.Operation) bool) (n float64) {
	for i := range v.Drains {
		n += truth(matches(&v.Drains[i]))
	}
	return n
}

// endOf returns the end of the pause that ends last, or zero if any pause has no end.
func endOf(pauses []policy.Pause) (last time.Time) {
	for i := range pauses {
		if pauses[i].Until.IsZero() {
			return time.Time{}
		}
		if pauses[i].Until.After(last) {
			last = pauses[i].Until
		}
	}
	return last
}

var conditionValues = map[policy.ConditionStatus]float64{policy.ConditionTrue: 1, policy.ConditionFalse: 0, policy.ConditionUnknown: -1}

func conditions(v *view, add addFunc) {
	for i := range v.Status.Conditions {
		add(conditionValues[v.Status.Conditions[i].Status], string(v.Status.Conditions[i].Type))
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// targetTypeOf returns the target type that the last pass used. Before the first pass, it returns
// the target type of the spec.
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
