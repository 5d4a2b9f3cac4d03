package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func describeOne(name, help string, more ...string) *prometheus.Desc {
	return describe("hpad_autoscaler_"+name, help, append([]string{"autoscaler"}, more...)...)
}

func describeMetric(name, help string) *prometheus.Desc {
	return describeOne("metric_"+name, help, "index", "type", "metric", "goal")
}

// What is read from the views of the autoscalers.
var (
	autoscalersDesc = describe("hpad_autoscalers", "Autoscalers in the configuration in force.")

	discoveredDesc = describe("hpad_discovered_targets", "Targets that a fleet found by their labels, by what became of the labels: active, disabled, mistaken or overridden.", "fleet", "state")

	infoDesc           = describeOne("info", "What the autoscaler scales; always 1.", "fleet", "target", "kind")
	currentDesc        = describeOne("current_replicas", "Replicas before the write of the last pass.")
	desiredDesc        = describeOne("desired_replicas", "Replicas that the last pass wanted.")
	minDesc            = describeOne("min_replicas", "Lower bound on replicas.")
	maxDesc            = describeOne("max_replicas", "Upper bound on replicas.")
	instancesDesc      = describeOne("instances", "Instances of the target that the last pass saw, by state.", "state")
	recommendedDesc    = describeOne("recommended_replicas", "Replicas that the metrics asked for in the last pass, before stabilization and limits; absent when no metric was looked at or none could be.")
	conditionDesc      = describeOne("condition", "State of a condition: 1 for True, 0 for False, -1 for Unknown.", "condition")
	lastScaleDesc      = describeOne("last_scale_timestamp_seconds", "When the count was last written; absent before the first time.")
	lastEvaluationDesc = describeOne("last_evaluation_timestamp_seconds", "The tick of the last pass that ended; absent before the first.")
	durationDesc       = describeOne("last_evaluation_duration_seconds", "How long the last pass took.")
	periodDesc         = describeOne("sync_period_seconds", "How often the autoscaler is evaluated.")
	failingDesc        = describeOne("failing", "Whether the last pass ended with an error: 1 or 0.")
	heldDesc           = describeOne("held", "Whether the platform does not want the count to be written: 1 or 0.")
	unevaluatedDesc    = describeOne("unevaluated", "Whether three periods went by without a pass that ended: 1 or 0.")
	quarantinedDesc    = describeOne("quarantined", "Whether the autoscaler is left alone after repeated panics: 1 or 0.")
	lateDesc           = describeOne("late_passes_total", "Ticks at which a pass was still under way.")
	panicsDesc         = describeOne("panics_total", "Passes that panicked.")
	foreignDesc        = describeOne("foreign_changes_total", "Times that somebody else changed the count.")
	doubtedDesc        = describeOne("doubted_readings_total", "Readings that the guard did not believe.")

	reversalsDesc = describeOne("reversals_total", "Times that the count was written in the other direction than the time before.")
	drainingDesc  = describeOne("draining_instances", "Instances that a drain takes the work of, or that are being removed after it.")
	overdueDesc   = describeOne("overdue_drains", "Drains that are not over although their deadline has passed.")

	valueDesc    = describeMetric("value", "Current value of a metric, in the unit of its goal; absent when it failed.")
	goalDesc     = describeMetric("goal", "Goal of a metric: percent of the requests for Utilization, else the metric's own unit.")
	proposedDesc = describeMetric("proposed_replicas", "Replicas that a metric alone asked for in the last pass; absent when it failed.")
	failedDesc   = describeMetric("failed", "Whether a metric failed in the last pass: 1 or 0.")

	viewDescs = []*prometheus.Desc{
		autoscalersDesc, discoveredDesc, infoDesc, currentDesc, desiredDesc, minDesc, maxDesc, instancesDesc, recommendedDesc, conditionDesc,
		lastScaleDesc, lastEvaluationDesc, durationDesc, periodDesc, failingDesc, heldDesc, unevaluatedDesc,
		quarantinedDesc, lateDesc, panicsDesc, foreignDesc, doubtedDesc,
		reversalsDesc, drainingDesc, overdueDesc, valueDesc, goalDesc, proposedDesc, failedDesc,
	}
)

// collector reads the views of the autoscalers when somebody scrapes.
type collector Metrics

// Describe answers what Collect may.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range viewDescs {
		descs <- desc
	}
}

// Collect answers what the views tell.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	var views []api.Autoscaler
	if show := c.views.Load(); show != nil {
		views = (*show)()
	}
	now := time.Now()
	s := sink(metrics)
	if show := c.discovered.Load(); show != nil {
		s.discoveries((*show)())
	}
	s.gauge(autoscalersDesc, float64(len(views)))
	for i := range views {
		view := &views[i]
		s.target(view)
		s.evaluation(view, now)
		s.conditions(view)
		s.drains(view, now)
		for j := range view.Spec.Metrics {
			s.metric(view, j)
		}
		handle := (*Metrics)(c).find(view.Name)
		if handle == nil {
			handle = &Autoscaler{}
		}
		s.counter(lateDesc, handle.late.Load(), view.Name)
		s.counter(panicsDesc, handle.panics.Load(), view.Name)
		s.counter(foreignDesc, handle.foreign.Load(), view.Name)
		s.counter(doubtedDesc, handle.doubted.Load(), view.Name)
		s.counter(reversalsDesc, handle.reversals.Load(), view.Name)
	}
}

// discoveries counts the targets that fleets found by their labels.
func (s sink) discoveries(discovered []api.Discovered) {
	type group struct {
		fleet string
		state api.DiscoveredState
	}
	counts := map[group]int{}
	for _, target := range discovered {
		fleet, _, _ := strings.Cut(target.Reference, "/")
		for _, state := range api.DiscoveredStates {
			counts[group{fleet, state}] += 0
		}
		counts[group{fleet, target.State}]++
	}
	for of, count := range counts {
		s.gauge(discoveredDesc, float64(count), of.fleet, string(of.state))
	}
}

// sink takes the metrics of a scrape.
type sink chan<- prometheus.Metric

func (s sink) send(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	metric, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s <- metric
}

func (s sink) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	s.send(desc, prometheus.GaugeValue, value, labels)
}

func (s sink) counter(desc *prometheus.Desc, value uint64, labels ...string) {
	s.send(desc, prometheus.CounterValue, float64(value), labels)
}

func (s sink) truth(desc *prometheus.Desc, value bool, labels ...string) {
	number := 0.0
	if value {
		number = 1
	}
	s.gauge(desc, number, labels...)
}

func (s sink) time(desc *prometheus.Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		s.gauge(desc, float64(at.UnixMilli())/1000, labels...)
	}
}

// target tells what is scaled and the counts.
func (s sink) target(view *api.Autoscaler) {
	fleet, target, _ := strings.Cut(view.Reference, "/")
	s.gauge(infoDesc, 1, view.Name, fleet, target, view.Kind)
	s.gauge(currentDesc, float64(view.Status.CurrentReplicas), view.Name)
	s.gauge(desiredDesc, float64(view.Status.DesiredReplicas), view.Name)
	s.gauge(maxDesc, float64(view.Spec.MaxReplicas), view.Name)
	if view.Spec.MinReplicas != nil {
		s.gauge(minDesc, float64(*view.Spec.MinReplicas), view.Name)
	}
	n := &view.Instances
	s.gauge(instancesDesc, float64(n.Ready), view.Name, "ready")
	s.gauge(instancesDesc, float64(n.Unready), view.Name, "unready")
	s.gauge(instancesDesc, float64(n.Pending), view.Name, "pending")
	s.gauge(instancesDesc, float64(n.Failed), view.Name, "failed")
	s.gauge(instancesDesc, float64(n.Succeeded), view.Name, "succeeded")
	s.gauge(instancesDesc, float64(n.Deleting), view.Name, "deleting")
	if view.Decision != nil && view.Decision.Recommendation != nil {
		s.gauge(recommendedDesc, float64(*view.Decision.Recommendation), view.Name)
	}
	s.time(lastScaleDesc, view.Status.LastScaleTime, view.Name)
}

// evaluation tells how the passes go.
func (s sink) evaluation(view *api.Autoscaler, now time.Time) {
	e := &view.Evaluation
	s.time(lastEvaluationDesc, e.Last, view.Name)
	s.gauge(durationDesc, e.DurationSeconds, view.Name)
	s.gauge(periodDesc, view.SyncPeriodSeconds, view.Name)
	s.truth(failingDesc, e.Error != "", view.Name)
	s.truth(heldDesc, view.Decision != nil && view.Decision.Hold != nil, view.Name)
	s.truth(unevaluatedDesc, e.Unevaluated, view.Name)
	s.truth(quarantinedDesc, now.Before(e.QuarantinedUntil), view.Name)
}

func (s sink) conditions(view *api.Autoscaler) {
	for i := range view.Status.Conditions {
		condition := &view.Status.Conditions[i]
		value := -1.0
		switch condition.Status {
		case policy.ConditionTrue:
			value = 1
		case policy.ConditionFalse:
			value = 0
		}
		s.gauge(conditionDesc, value, view.Name, string(condition.Type))
	}
}

// drains tells of instances that are taken, and whether that takes too long.
func (s sink) drains(view *api.Autoscaler, now time.Time) {
	draining, overdue := 0, 0
	for i := range view.Drains {
		if view.Drains[i].Removes() {
			draining++
		}
		if view.Drains[i].Overdue(now) {
			overdue++
		}
	}
	s.gauge(drainingDesc, float64(draining), view.Name)
	s.gauge(overdueDesc, float64(overdue), view.Name)
}

// metric tells of one metric of the spec: its goal always, the rest if the last
// pass looked at it.
func (s sink) metric(view *api.Autoscaler, i int) {
	spec := &view.Spec.Metrics[i]
	var result *policy.MetricResult
	if view.Decision != nil && i < len(view.Decision.Metrics) {
		result = &view.Decision.Metrics[i]
	}
	goal := goalOf(spec, result)
	labels := []string{view.Name, strconv.Itoa(i), string(spec.Type), spec.Name, string(goal)}
	if value, ok := goalValue(goal, spec.Target.AverageUtilization, spec.Target.AverageValueMilli, spec.Target.ValueMilli); ok {
		s.gauge(goalDesc, value, labels...)
	}
	if result == nil {
		return
	}
	s.truth(failedDesc, result.Error != "", labels...)
	if result.Error != "" {
		return
	}
	s.gauge(proposedDesc, float64(result.Proposal), labels...)
	if value, ok := goalValue(goal, result.Current.AverageUtilization, result.Current.AverageValueMilli, result.Current.ValueMilli); ok {
		s.gauge(valueDesc, value, labels...)
	}
}

// goalOf answers which of the goals is used: the one that the pass says it used,
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

// goalValue picks the value of a goal's type.
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
