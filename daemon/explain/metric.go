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

// metricText formats a metric with its current value and its target value.
func metricText(result policy.MetricResult) string {
	title := string(result.Type) + " " + metricName(result)
	if result.TargetType == "" {
		return title
	}
	current := unknown
	if result.Error == "" {
		current = currentText(isBinary(&result), result.TargetType, result.Current)
	}
	return fmt.Sprintf("%s: %s / %s%s", title, current, targetValueText(isBinary(&result), result.TargetType, result.TargetValue), valueMark(result))
}

// FallbackText formats the start of a metric's failure and the proposal of its on_missing setting.
// Times are in the time zone of now.
func FallbackText(fallback *policy.Fallback, now time.Time) string {
	text := fmt.Sprintf("failing since %s, and on_missing (%s) ", clockText(fallback.FirstFailureTime, now), useText(fallback))
	switch {
	case fallback.Replicas == nil:
		return text + "has no proposal, because the last one is unknown"
	case fallback.Active:
		return text + fmt.Sprintf("proposes %d", *fallback.Replicas)
	}
	return text + fmt.Sprintf("will propose %d at %s", *fallback.Replicas, clockText(fallback.From, now))
}

// useText formats the on_missing key "use" as it is written in the configuration.
func useText(fallback *policy.Fallback) string {
	if fallback.Use == policy.UseReplicas && fallback.Replicas != nil {
		return fmt.Sprintf("%s:%d", fallback.Use, *fallback.Replicas)
	}
	return string(fallback.Use)
}

// OnMissingText formats the on_missing setting of a metric, for example "hold, after 5m0s".
func OnMissingText(missing policy.OnMissing) string {
	use := useText(&policy.Fallback{Use: missing.Use, Replicas: &missing.Replicas})
	return fmt.Sprintf("%s, after %s", use, time.Duration(missing.AfterSeconds)*time.Second)
}

// valueMark returns the mark for a value per instance, and for a percentage of the limit. It returns
// "" if the metric's type implies the mark.
func valueMark(result policy.MetricResult) string {
	switch {
	case result.TargetType == policy.AverageValueTarget:
		return " per instance"
	case result.UtilizationOf == policy.UtilizationOfLimit:
		return " of the limit"
	}
	return ""
}

// metricName returns the name of a metric within its autoscaler.
func metricName(result policy.MetricResult) string {
	switch {
	case result.Task != "":
		return result.Name + " of task " + result.Task
	case result.Object != "":
		return result.Name + " of " + result.Object
	default:
		return result.Name
	}
}

// currentText formats the current value of a metric: "45%" for a utilization, "<unknown>" for a
// missing value, "0 (empty)" for an empty result that counts as zero, and otherwise a quantity.
func currentText(binary bool, kind policy.TargetType, status policy.MetricStatus) string {
	switch {
	case status.Empty:
		return "0 (empty)"
	case kind == policy.UtilizationTarget && status.AverageUtilization != nil:
		return strconv.Itoa(int(*status.AverageUtilization)) + "%"
	case kind == policy.AverageValueTarget && status.AverageValueMilli != nil:
		return valueText(binary, *status.AverageValueMilli)
	case status.ValueMilli != nil: // also the total at 0 replicas
		return valueText(binary, *status.ValueMilli)
	default:
		return unknown
	}
}

// valueText formats a measured value: "50Mi" if its unit is binary, and otherwise a decimal.
func valueText(binary bool, milli int64) string {
	if binary {
		return quantity.FormatMemory(milli)
	}
	return quantity.FormatDecimal(milli)
}

// ValueText formats a value of a metric with the unit of its target.
func ValueText(spec *policy.MetricSpec, milli int64) string {
	return valueText(isBinarySpec(spec), milli)
}

// isBinary reports whether the values of a metric have a binary unit.
func isBinary(result *policy.MetricResult) bool {
	return result.Binary || isMemory(result.Type, result.Name)
}

func isBinarySpec(spec *policy.MetricSpec) bool {
	return spec.Target.Binary || isMemory(spec.Type, spec.Name)
}

func isMemory(metric policy.MetricType, name string) bool {
	return name == "memory" && (metric == policy.ResourceMetric || metric == policy.ContainerResourceMetric)
}

func targetValueText(binary bool, kind policy.TargetType, value int64) string {
	switch {
	case kind == policy.UtilizationTarget:
		return strconv.FormatInt(value, 10) + "%"
	case binary:
		return quantity.FormatBytes(value)
	default:
		return quantity.FormatDecimal(value)
	}
}

// InputText names the origin of a metric's readings, for example "source prom: QUERY".
func InputText(input api.Input) string {
	switch {
	case input.Source == "" && input.Query != "":
		return "the formula " + OneLine(input.Query)
	case input.Source == "":
		return "the fleet's own samples"
	}
	text := "source " + input.Source
	if input.Query != "" { // the source can consist of one value
		text += ": " + OneLine(input.Query)
	}
	if len(input.Select) == 0 {
		return text
	}
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(input.Select)) {
		labels = append(labels, fmt.Sprintf("%s=%q", label, input.Select[label]))
	}
	return text + " where " + strings.Join(labels, ", ")
}

// AgeText returns the age of an input's oldest sample if it exceeds the sync period, and otherwise
// "".
func AgeText(input api.Input) string {
	if input.SampleAgeSeconds == 0 {
		return ""
	}
	return fmt.Sprintf("%s old, more than the sync period", time.Duration(input.SampleAgeSeconds*float64(time.Second)))
}

// targetFieldText formats one field of a metric's target: "60%", a decimal, or "<auto>" if the
// field is not set.
func targetFieldText(spec policy.MetricSpec, kind policy.TargetType) string {
	target := &spec.Target
	switch {
	case kind == policy.UtilizationTarget && target.AverageUtilization != nil:
		return targetValueText(isBinarySpec(&spec), kind, int64(*target.AverageUtilization))
	case kind == policy.AverageValueTarget && target.AverageValueMilli != nil:
		return targetValueText(isBinarySpec(&spec), kind, *target.AverageValueMilli)
	case kind == policy.ValueTarget && target.ValueMilli != nil:
		return targetValueText(isBinarySpec(&spec), kind, *target.ValueMilli)
	default:
		return "<auto>"
	}
}
