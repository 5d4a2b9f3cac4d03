package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// MetricText names a metric with its current value and its goal.
func MetricText(result policy.MetricResult) string {
	title := string(result.Type) + " " + MetricName(result)
	if result.Goal == "" {
		return title
	}
	current := "<unknown>"
	if result.Error == "" {
		current = currentText(result.Type, result.Name, result.Goal, result.Current)
	}
	return fmt.Sprintf("%s: %s / %s%s", title, current, goalText(result.Type, result.Name, result.Goal, result.GoalValue), averageMark(result))
}

// FallbackText says since when a metric fails, and what its on_missing makes of that, as
// of a time.
func FallbackText(fallback *policy.Fallback, now time.Time) string {
	text := fmt.Sprintf("failing since %s, and on_missing (%s) ", clockText(fallback.FirstFailureTime, now), useText(fallback))
	switch {
	case fallback.Replicas == nil:
		return text + "has no proposal, because the last one is not known"
	case fallback.Active:
		return text + fmt.Sprintf("proposes %d", *fallback.Replicas)
	}
	return text + fmt.Sprintf("proposes %d from %s on", *fallback.Replicas, clockText(fallback.From, now))
}

// clockText writes an instant in the zone of another one, with its day where that differs.
func clockText(at, now time.Time) string {
	if at = at.In(now.Location()); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// useText writes what a metric that failed proposes as the configuration says it.
func useText(fallback *policy.Fallback) string {
	if fallback.Use == policy.UseReplicas && fallback.Replicas != nil {
		return fmt.Sprintf("%s:%d", fallback.Use, *fallback.Replicas)
	}
	return string(fallback.Use)
}

// OnMissingText says what a metric proposes once it has failed for a while.
func OnMissingText(missing policy.OnMissing) string {
	use := useText(&policy.Fallback{Use: missing.Use, Replicas: &missing.Replicas})
	return fmt.Sprintf("%s, after %s", use, time.Duration(missing.AfterSeconds)*time.Second)
}

// averageMark marks a goal that is per instance where the type does not say so.
func averageMark(result policy.MetricResult) string {
	if result.Goal == policy.AverageValueTarget {
		return " per instance"
	}
	return ""
}

// MetricName names a metric inside of its autoscaler.
func MetricName(result policy.MetricResult) string {
	switch {
	case result.Task != "":
		return result.Name + " of task " + result.Task
	case result.Object != "":
		return result.Name + " of " + result.Object
	default:
		return result.Name
	}
}

// currentText writes the current value of the metric of a type and name in the terms of its
// goal: "45%" for Utilization, a decimal otherwise, "<unknown>" without a value.
func currentText(metric policy.MetricType, name string, goal policy.TargetType, status policy.MetricStatus) string {
	switch {
	case goal == policy.UtilizationTarget && status.AverageUtilization != nil:
		return strconv.Itoa(int(*status.AverageUtilization)) + "%"
	case goal == policy.AverageValueTarget && status.AverageValueMilli != nil:
		return valueText(metric, name, *status.AverageValueMilli)
	case goal == policy.ValueTarget && status.ValueMilli != nil:
		return quantity.FormatDecimal(*status.ValueMilli)
	default:
		return "<unknown>"
	}
}

// valueText writes a value that was measured: of memory as "50Mi", else as a decimal.
func valueText(metric policy.MetricType, name string, milli int64) string {
	if isMemory(metric, name) {
		return quantity.FormatMemory(milli)
	}
	return quantity.FormatDecimal(milli)
}

func isMemory(metric policy.MetricType, name string) bool {
	return name == "memory" && (metric == policy.ResourceMetric || metric == policy.ContainerResourceMetric)
}

// goalText writes the value of a goal of the metric of a type and name.
func goalText(metric policy.MetricType, name string, goal policy.TargetType, value int64) string {
	switch {
	case goal == policy.UtilizationTarget:
		return strconv.FormatInt(value, 10) + "%"
	case isMemory(metric, name):
		return quantity.FormatBytes(value)
	default:
		return quantity.FormatDecimal(value)
	}
}

// InputText says where a metric's readings come from, as "source prom: QUERY".
func InputText(input api.Input) string {
	if input.Source == "" {
		return "the fleet's own samples"
	}
	text := "source " + input.Source + ": " + OneLine(input.Query)
	if len(input.Select) == 0 {
		return text
	}
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(input.Select)) {
		labels = append(labels, fmt.Sprintf("%s=%q", label, input.Select[label]))
	}
	return text + " where " + strings.Join(labels, ", ")
}

// AgeText returns the age of an input's oldest sample if it exceeds the sync period; else "".
func AgeText(input api.Input) string {
	if input.SampleAgeSeconds == 0 {
		return ""
	}
	return fmt.Sprintf("%s old, more than the sync period", time.Duration(input.SampleAgeSeconds*float64(time.Second)))
}

// GoalText writes one field of a metric's goal: "60%" or a decimal, "<auto>"
// when the field is absent.
func GoalText(spec policy.MetricSpec, goal policy.TargetType) string {
	target := &spec.Target
	switch {
	case goal == policy.UtilizationTarget && target.AverageUtilization != nil:
		return goalText(spec.Type, spec.Name, goal, int64(*target.AverageUtilization))
	case goal == policy.AverageValueTarget && target.AverageValueMilli != nil:
		return goalText(spec.Type, spec.Name, goal, *target.AverageValueMilli)
	case goal == policy.ValueTarget && target.ValueMilli != nil:
		return goalText(spec.Type, spec.Name, goal, *target.ValueMilli)
	default:
		return "<auto>"
	}
}
