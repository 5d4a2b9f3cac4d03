package explain

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func (p *steps) metrics(view api.Explanation, d policy.Decision) {
	if len(d.Metrics) == 0 {
		return
	}
	p.step("Compute the metrics")
	for i, result := range d.Metrics {
		p.line(1, "[%d] %s", i, metricText(result))
		if i < len(view.Inputs) {
			p.line(3, "from %s", InputText(view.Inputs[i]))
			if text := AgeText(view.Inputs[i]); text != "" {
				p.line(3, "oldest sample: %s", text)
			}
		}
		if i > 0 && d.Metrics[i-1].Input && !result.Input && result.Error == "" && result.TargetType == policy.AverageValueTarget {
			p.line(3, "result of the formula: %s", valueText(isBinary(&result), result.Total))
		}
		p.metric(result, d.Time)
	}
}

func (p *steps) metric(result policy.MetricResult, now time.Time) {
	for _, warning := range result.Warnings {
		p.line(3, "warning: %s", warning)
	}
	if result.Current.Empty {
		p.line(3, "the result is empty and counts as zero (empty = \"zero\")")
	}
	if result.Series > 1 {
		p.line(3, "the sum of %d series", result.Series)
	}
	if groups := result.Groups; groups != nil {
		extraneous := ""
		if groups.Extraneous > 0 {
			extraneous = fmt.Sprintf(", and %d samples of unknown instances (R34)", groups.Extraneous)
		}
		p.line(3, "instances: %d ready, %d unready, %d missing, %d ignored%s (R27)",
			groups.Ready, groups.Unready, groups.Missing, groups.Ignored, extraneous)
	}
	if result.Error != "" {
		p.line(3, "failed: %s", result.Error)
		p.fallback(result, now)
		return
	}
	if result.Input {
		p.line(3, "value in the formula: %s", valueText(isBinary(&result), result.InputMilli()))
		return
	}
	p.ratio(result)
	switch {
	case result.BaseCount > 0:
		p.line(3, "multiplied by %d", result.BaseCount)
	case proposesUnready(&result):
		p.line(3, "multiplied by 0, because no instance is ready")
	}
	if result.ActivationMilli != nil {
		total := ""
		if result.TargetType == policy.AverageValueTarget {
			total = " in total"
		}
		p.line(3, "%s is %s%s, not above the activation of %s, which applies at 0 replicas",
			metricName(result), valueText(isBinary(&result), wholeValue(&result)), total, valueText(isBinary(&result), *result.ActivationMilli))
	}
	p.line(3, "proposal: %d%s", result.Proposal, ruleText(result.Rule))
}

// wholeValue returns the value of an External or Object metric that is compared with its
// activation, in milli-units.
func wholeValue(result *policy.MetricResult) int64 {
	if result.Current.ValueMilli != nil {
		return *result.Current.ValueMilli
	}
	return result.Total
}

func (p *steps) fallback(result policy.MetricResult, now time.Time) {
	if result.Fallback == nil {
		return
	}
	p.line(3, "%s", FallbackText(result.Fallback, now))
	if result.FallsBack() {
		p.line(3, "proposal: %d (on_missing)", result.Proposal)
	}
}

func (p *steps) ratio(result policy.MetricResult) {
	if result.Ratio == nil && result.CompletedRatio == nil {
		return
	}
	if result.Ratio != nil {
		p.line(3, "ratio: %s", number(*result.Ratio))
	}
	if result.CompletedRatio != nil {
		p.line(3, "ratio with assumed values for missing and unready instances: %s (R36.4)", number(*result.CompletedRatio))
	}
	side := "outside"
	if result.Within {
		side = "within"
	}
	p.line(3, "%s the tolerance: %s down, %s up (R30)", side, percent(result.ToleranceDown), percent(result.ToleranceUp))
}

func ruleText(rule string) string {
	if rule == "" {
		return ""
	}
	return " (" + rule + ")"
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', 6, 64) }

func percent(share float64) string { return number(share*100) + "%" }
