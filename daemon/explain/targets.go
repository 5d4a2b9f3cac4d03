package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// unknown and none are placeholders that kubectl also uses.
const (
	unknown = "<unknown>"
	none    = "<none>"
)

// ReplicasText formats the count before the last write, or returns "<unknown>" if the target was
// never read.
func ReplicasText(view api.Autoscaler) string {
	unread := view.Evaluation.Last.IsZero() || slices.ContainsFunc(view.Status.Conditions, func(c policy.Condition) bool {
		return c.Type == policy.AbleToScale && c.Reason == "FailedGetScale"
	})
	if d := view.Decision; d != nil { // lists do not contain the decision
		unread = d.Case == policy.CaseUnreadable
	}
	if unread && view.Status.CurrentReplicas == 0 {
		return unknown
	}
	return strconv.Itoa(int(view.Status.CurrentReplicas))
}

// DesiredText formats the desired count of the last pass, or returns "<unknown>" before the first
// pass.
func DesiredText(view api.Autoscaler) string {
	if !view.DesiredKnown() {
		return unknown
	}
	return strconv.Itoa(int(view.Status.DesiredReplicas))
}

// maxTargets is the number of metrics that the column TARGETS shows.
const maxTargets = 2

// TargetsText formats the current and target values of metrics, as kubectl does. If a formula
// combines the metrics, only its result has an effective target.
func TargetsText(specs []policy.MetricSpec, statuses []policy.MetricStatus) string {
	if len(specs) == 0 {
		return none
	}
	if last := len(specs) - 1; specs[last].Formula != "" {
		specs, statuses = specs[last:], statuses[min(last, len(statuses)):]
	}
	var shown []string
	for i, spec := range specs[:min(len(specs), maxTargets)] {
		var status policy.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		shown = append(shown, targetText(spec, status))
	}
	text := strings.Join(shown, ", ")
	if more := len(specs) - maxTargets; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}

// targetText formats one metric. Like kubectl, it includes names only for resources and marks
// averages only for other metrics.
func targetText(spec policy.MetricSpec, status policy.MetricStatus) string {
	kind := targetType(spec)
	text := currentText(isBinarySpec(&spec), kind, status) + "/" + targetFieldText(spec, kind)
	switch {
	case spec.Formula != "":
		return "formula: " + text
	case spec.Type == policy.ResourceMetric || spec.Type == policy.ContainerResourceMetric:
		return spec.Name + ": " + text
	case spec.Type != policy.InstancesMetric && kind == policy.AverageValueTarget:
		return text + " (avg)"
	default:
		return text
	}
}

// targetType returns the target field that kubectl shows: the average value if it is set, otherwise
// the utilization of a resource, otherwise the value.
func targetType(spec policy.MetricSpec) policy.TargetType {
	switch {
	case spec.Type == policy.ObjectMetric && spec.Target.Type == policy.ValueTarget && spec.Target.ValueMilli != nil:
		// If both fields are set, the type decides (R40).
		return policy.ValueTarget
	case spec.Target.AverageValueMilli != nil || spec.Type == policy.InstancesMetric:
		return policy.AverageValueTarget
	case spec.Type == policy.ResourceMetric || spec.Type == policy.ContainerResourceMetric:
		return policy.UtilizationTarget
	default:
		return policy.ValueTarget
	}
}

// MetricTitle formats the name of a metric as "kubectl describe hpa" does.
func MetricTitle(spec policy.MetricSpec) string {
	kind := targetType(spec)
	switch spec.Type {
	case policy.ResourceMetric, policy.ContainerResourceMetric:
		title := "resource " + spec.Name
		if spec.Task != "" {
			title += fmt.Sprintf(" of task %q", spec.Task)
		}
		title += " on instances"
		if kind == policy.UtilizationTarget {
			title += "  (as a percentage of " + cmp.Or(spec.Target.UtilizationOf, "request") + ")"
		}
		return title
	case policy.InstancesMetric:
		return fmt.Sprintf("%q on instances", spec.Name)
	case policy.ObjectMetric:
		return fmt.Sprintf("%q on %s (%s)", spec.Name, spec.Object, targetTitle(kind))
	default:
		return fmt.Sprintf("%q (%s)", spec.Name, targetTitle(kind))
	}
}

func targetTitle(kind policy.TargetType) string {
	if kind == policy.AverageValueTarget {
		return "target average value"
	}
	return "target value"
}

// MetricValues formats the current value and the target value. Like kubectl, it formats the average
// amount after a utilization.
func MetricValues(spec policy.MetricSpec, status policy.MetricStatus) string {
	kind := targetType(spec)
	current := currentText(isBinarySpec(&spec), kind, status)
	if kind == policy.UtilizationTarget && status.AverageUtilization != nil && status.AverageValueMilli != nil {
		current += " (" + currentText(isBinarySpec(&spec), policy.AverageValueTarget, status) + ")"
	}
	return current + " / " + targetFieldText(spec, kind)
}
