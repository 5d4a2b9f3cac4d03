package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings/quantity"
)

// metrics adds how each metric came to its proposal.
func (p *page) metrics(view api.Explanation, d policy.Decision) {
	if len(d.Metrics) == 0 {
		return
	}
	p.step("Compute the metrics")
	for i, result := range d.Metrics {
		p.line(1, "[%d] %s", i+1, metricTitle(result))
		if i < len(view.Inputs) {
			p.line(3, "read from %s", InputText(view.Inputs[i]))
		}
		p.metric(result)
	}
}

// metric adds the steps of one metric, as far as they went.
func (p *page) metric(result policy.MetricResult) {
	for _, warning := range result.Warnings {
		p.line(3, "warning: %s", warning)
	}
	if groups := result.Groups; groups != nil {
		extraneous := ""
		if groups.Extraneous > 0 {
			extraneous = fmt.Sprintf(", and %d samples of instances that are not there (R34)", groups.Extraneous)
		}
		p.line(3, "instances: %d ready, %d unready, %d missing, %d ignored%s (R27)",
			groups.Ready, groups.Unready, groups.Missing, groups.Ignored, extraneous)
	}
	if result.Error != "" {
		p.line(3, "failed: %s", result.Error)
		return
	}
	p.ratio(result)
	if result.BaseCount > 0 {
		p.line(3, "multiplied by %d", result.BaseCount)
	}
	p.line(3, "proposal: %d%s", result.Proposal, ruleText(result.Rule))
}

// ratio adds the ratio, its completion and the tolerance.
func (p *page) ratio(result policy.MetricResult) {
	if result.Ratio == nil && result.CompletedRatio == nil {
		return
	}
	if result.Ratio != nil {
		p.line(3, "ratio: %s", number(*result.Ratio))
	}
	if result.CompletedRatio != nil {
		p.line(3, "ratio with missing and unready instances filled in: %s (R36.4)", number(*result.CompletedRatio))
	}
	side := "outside of"
	if result.Within {
		side = "within"
	}
	p.line(3, "%s the tolerance: %s down, %s up (R30)", side, percent(result.ToleranceDown), percent(result.ToleranceUp))
}

// metricTitle names a metric with its current value and its goal.
func metricTitle(result policy.MetricResult) string {
	title := string(result.Type) + " " + metricName(result)
	if result.Goal == "" {
		return title
	}
	current := "<unknown>"
	if result.Error == "" {
		current = CurrentText(result.Current, result.Goal)
	}
	return fmt.Sprintf("%s: %s / %s%s", title, current, goalText(result.Type, result.Name, result.Goal, result.GoalValue), averageMark(result))
}

// averageMark marks a goal that is per instance where the type does not say so.
func averageMark(result policy.MetricResult) string {
	if result.Goal == policy.AverageValueTarget {
		return " per instance"
	}
	return ""
}

// metricName names a metric inside of its autoscaler.
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

// CurrentText writes the current value of a metric in the terms of its goal:
// "45%" for Utilization, a quantity otherwise, "<unknown>" when there is none.
func CurrentText(status policy.MetricStatus, goal policy.TargetType) string {
	switch {
	case goal == policy.UtilizationTarget && status.AverageUtilization != nil:
		return strconv.Itoa(int(*status.AverageUtilization)) + "%"
	case goal == policy.AverageValueTarget && status.AverageValueMilli != nil:
		return quantity.FormatMilli(*status.AverageValueMilli)
	case goal == policy.ValueTarget && status.ValueMilli != nil:
		return quantity.FormatMilli(*status.ValueMilli)
	default:
		return "<unknown>"
	}
}

// goalText writes the value of a goal of the metric of a type and name.
func goalText(metric policy.MetricType, name string, goal policy.TargetType, value int64) string {
	switch {
	case goal == policy.UtilizationTarget:
		return strconv.FormatInt(value, 10) + "%"
	case name == "memory" && (metric == policy.ResourceMetric || metric == policy.ContainerResourceMetric):
		return quantity.FormatBytes(value)
	default:
		return quantity.FormatMilli(value)
	}
}

// InputText says where a metric's readings come from, as "source prom: QUERY".
func InputText(input api.Input) string {
	if input.Source == "" {
		return "the fleet's own samples"
	}
	text := "source " + input.Source + ": " + oneLine(input.Query)
	if len(input.Select) == 0 {
		return text
	}
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(input.Select)) {
		labels = append(labels, fmt.Sprintf("%s=%q", label, input.Select[label]))
	}
	return text + " where " + strings.Join(labels, ", ")
}

// ruleText writes a rule in parentheses.
func ruleText(rule string) string {
	if rule == "" {
		return ""
	}
	return " (" + rule + ")"
}

// number writes a ratio as shortly as tells it from its neighbors in practice.
func number(value float64) string { return strconv.FormatFloat(value, 'g', 6, 64) }

// percent writes a share in percent.
func percent(share float64) string { return number(share*100) + "%" }

// GoalText writes one field of a metric's goal: "60%" or a quantity, "<auto>"
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
