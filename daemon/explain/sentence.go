package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// Line formats a decision as one line: "12:00:15 5 → 7: " followed by its sentence.
func Line(d policy.Decision, became api.Evaluation) string {
	return d.Time.Format(time.TimeOnly) + " " + Count(d, became) + ": " + Sentence(d, became)
}

// Count formats the count before a pass and, if the pass wrote a count, also the count after it,
// for example "5 → 7". It returns "-" if the target could not be read.
func Count(d policy.Decision, became api.Evaluation) string {
	switch {
	case d.Case == policy.CaseUnreadable || d.Time.IsZero():
		return "-"
	case became.Written != nil:
		return fmt.Sprintf("%d → %d", d.CurrentReplicas, *became.Written)
	default:
		return strconv.Itoa(int(d.CurrentReplicas))
	}
}

// Sentence describes a decision, its cause and the result of its write in one sentence. Times are
// in the decision's time zone.
func Sentence(d policy.Decision, became api.Evaluation) string {
	switch d.Case {
	case "": // the pass panicked
		return "No decision: " + d.Message + ": " + clause(d.Error) + "."
	case policy.CaseUnreadable:
		return "No decision: the target could not be read: " + clause(d.Error) + "."
	case policy.CaseDisabled:
		return "Kept at 0: autoscaling is disabled, because the metrics did not set the count to 0" + changedBefore(d) + "."
	case policy.CaseStopped:
		return "Kept at 0: a schedule stops the target (max_replicas = 0)" + changedBefore(d) + "."
	case policy.CaseOff:
		return fmt.Sprintf("Kept at %d: the autoscaler's mode is off%s.", d.CurrentReplicas, changedBefore(d))
	case policy.CaseMetricsFailed:
		return fmt.Sprintf("Kept at %d: %s%s.", d.CurrentReplicas, metricsFailedText(d), changedBefore(d))
	}
	text := change(d, became)
	cause, differs := causeText(d)
	if cause != "" {
		text += ": " + cause
	}
	separator := "; "
	if differs {
		separator = ", but "
	}
	if limits := limitTexts(d); len(limits) > 0 {
		text += separator + strings.Join(limits, "; ")
	}
	notes := slices.DeleteFunc([]string{text, unwrittenText(d, became), failedText(d), PartialText(&d), emptyText(&d)}, func(note string) bool { return note == "" })
	return strings.Join(notes, "; ") + changedBefore(d) + "."
}

// metricsFailedText explains a pass without a recommendation. All proposals are below the current
// count, because a higher proposal would be the recommendation (R25.5).
func metricsFailedText(d policy.Decision) string {
	best, proposed := int32(0), false
	for _, result := range d.Metrics {
		if result.FallsBack() || result.Proposes() && !result.Input {
			best, proposed = max(best, result.Proposal), true
		}
	}
	if last := len(d.Metrics) - 1; !proposed && last > 0 && d.Metrics[0].Input {
		inputs := d
		inputs.Metrics, inputs.Error = d.Metrics[:last], d.Metrics[last].Error
		return "the formula failed: " + failures(inputs)
	}
	if !proposed {
		return "no metric has a value: " + failures(d)
	}
	return fmt.Sprintf("the other metrics suggest %d, but hpad does not scale down while a metric fails: %s", best, failures(d))
}

func change(d policy.Decision, became api.Evaluation) string {
	if d.DesiredReplicas == d.CurrentReplicas {
		return fmt.Sprintf("Kept at %d", d.CurrentReplicas)
	}
	direction := "up"
	if d.DesiredReplicas < d.CurrentReplicas {
		direction = "down"
	}
	switch written := became.Written; {
	case written == nil:
		return fmt.Sprintf("Wants to scale %s from %d to %d", direction, d.CurrentReplicas, d.DesiredReplicas)
	case *written != d.DesiredReplicas:
		return fmt.Sprintf("Scaled from %d to %d instead of %d", d.CurrentReplicas, *written, d.DesiredReplicas)
	}
	return fmt.Sprintf("Scaled %s from %d to %d", direction, d.CurrentReplicas, d.DesiredReplicas)
}

// givenText describes a count that the metrics do not determine, or returns "".
func givenText(d policy.Decision) string {
	switch d.Case {
	case policy.CaseAboveMax:
		return fmt.Sprintf("above max (%d)", d.MaxReplicas)
	case policy.CaseBelowMin:
		return fmt.Sprintf("below min (%d)", d.MinReplicas)
	case policy.CaseNeverStarted:
		return "the target has never been started (initial_replicas)"
	case policy.CaseRestored:
		return restoredText(d)
	case policy.CaseCommanded:
		if d.Command == nil || d.Command.Author == "" {
			return "set by a user"
		}
		return "set by " + d.Command.Author
	}
	return ""
}

// causeText returns the cause of the desired count, and whether the metrics propose a different
// count.
func causeText(d policy.Decision) (text string, differs bool) {
	if text := givenText(d); text != "" {
		return text, false
	}
	if d.Recommendation == nil {
		return "", false
	}
	suggested := *d.Recommendation
	if d.Outage != nil {
		suggested = d.Outage.Proposed
	}
	differs = suggested != d.DesiredReplicas
	suggestion := fmt.Sprintf("suggests %d", suggested)
	if suggested == d.CurrentReplicas && !differs {
		suggestion = "suggests no change"
	}
	result := winner(d)
	switch {
	case result == nil:
		return "the metrics " + strings.Replace(suggestion, "suggests", "suggest", 1), differs
	case result.FallsBack():
		return fmt.Sprintf("on_missing (%s) of %s, which has failed since %s, %s",
			useText(result.Fallback), metricName(*result), clockText(result.Fallback.FirstFailureTime, d.Time), suggestion), differs
	}
	if result.ActivationMilli != nil {
		return fmt.Sprintf("%s is %s, not above its activation of %s",
			metricName(*result), valueText(isBinary(result), wholeValue(result)), valueText(isBinary(result), *result.ActivationMilli)), differs
	}
	current := currentText(isBinary(result), result.TargetType, result.Current)
	atZero := result.Rule == "R44" && d.StatusReplicas == 0 && result.Current.ValueMilli == nil
	if result.TargetType == "" || current == unknown || atZero {
		return metricName(*result) + " " + suggestion, differs
	}
	text = fmt.Sprintf("%s is %s%s", metricName(*result), current, valueMark(*result))
	target := "target " + targetValueText(isBinary(result), result.TargetType, result.TargetValue)
	if result.TargetType == policy.AverageValueTarget && result.Current.AverageValueMilli == nil { // at 0 replicas
		text, target = fmt.Sprintf("%s is %s in total", metricName(*result), current), target+valueMark(*result)
	}
	if differs {
		text += " (" + target + ") and " + suggestion
	} else {
		text += ", " + target
	}
	switch {
	case proposesUnready(result):
		text += fmt.Sprintf(" (0 instances are ready, and the ratio %s times 0 is 0)", number(*result.Ratio))
	case suggested == d.CurrentReplicas && !differs && changedByUnmeasured(result):
		text += ", which leaves no change once instances without a measurement are included"
	}
	return text, differs
}

// winner returns the metric with the highest proposal, or nil.
func winner(d policy.Decision) *policy.MetricResult {
	if d.Winner == nil || *d.Winner < 0 || *d.Winner >= len(d.Metrics) {
		return nil
	}
	return &d.Metrics[*d.Winner]
}

func restoredText(d policy.Decision) string {
	return fmt.Sprintf("restores the count after an external change to %d (noticed at %s)",
		d.Restore.Foreign, d.Restore.Since.In(d.Time.Location()).Format(time.TimeOnly))
}

// proposesUnready reports whether a metric proposes 0 only because no instance is ready: R41
// multiplies the ratio by the number of ready instances.
func proposesUnready(result *policy.MetricResult) bool {
	return result.Rule == "R41" && result.Error == "" && !result.Within && result.Proposal == 0 && result.BaseCount == 0 && result.Ratio != nil && *result.Ratio > 0
}

// changedByUnmeasured reports whether a metric outside its tolerance proposes no change only
// because its proposal includes assumed values for unmeasured instances (R36).
func changedByUnmeasured(result *policy.MetricResult) bool {
	return result.CompletedRatio != nil && result.Ratio != nil && result.Groups != nil &&
		(*result.Ratio > 1+result.ToleranceUp || *result.Ratio < 1-result.ToleranceDown)
}

// changedBefore describes an external change since the previous pass, unless the decision reverts
// the change.
func changedBefore(d policy.Decision) string {
	if d.Foreign == nil || d.Case == policy.CaseRestored {
		return ""
	}
	return fmt.Sprintf("; an external writer had changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas)
}

// limitTexts lists the limits that changed the recommendation, in the order of the algorithm.
func limitTexts(d policy.Decision) []string {
	var texts []string
	if d.Outage != nil {
		texts = append(texts, outageText(d))
	}
	if s := d.Stabilization; s != nil && s.Binding != nil && d.Recommendation != nil && s.Replicas != *d.Recommendation {
		window := fmt.Sprintf("%s scale-down window", s.DownWindow)
		if s.Replicas < *d.Recommendation {
			window = fmt.Sprintf("%s scale-up window", s.UpWindow)
		}
		texts = append(texts, fmt.Sprintf("a recommendation of %d from %s is still inside the %s",
			s.Binding.Replicas, s.Binding.Time.In(d.Time.Location()).Format(time.TimeOnly), window))
	}
	if l := d.Limit; l != nil && l.Limited {
		texts = append(texts, limitText(d, *l))
	}
	if text := boundText(d); text != "" {
		texts = append(texts, text)
	}
	if d.RaisedToMin {
		texts = append(texts, fmt.Sprintf("a target at zero starts at min (%d)", d.MinReplicas))
	}
	if b := d.PlatformBound; b != nil {
		texts = append(texts, fmt.Sprintf("the platform's limit (%s) is %d", b.Reason, b.Replicas))
	}
	return texts
}

func outageText(d policy.Decision) string {
	return fmt.Sprintf("no instance has been ready since %s, so the metrics do not lower the count before %s (outage_hold)",
		clockText(d.Outage.Since, d.Time), clockText(d.Outage.Until, d.Time))
}

func limitText(d policy.Decision, l policy.Limit) string {
	switch {
	case l.Reason == "TooManyReplicas":
		return fmt.Sprintf("max is %d", l.Replicas)
	case l.Reason == "TooFewReplicas":
		return fmt.Sprintf("min is %d", l.Replicas)
	case l.Policy != nil:
		return fmt.Sprintf("the policy %s allows %d for now (%s)", policyText(*l.Policy), l.Replicas, l.Reason)
	case l.Replicas == d.CurrentReplicas:
		return fmt.Sprintf("this direction is disabled (%s)", l.Reason)
	default:
		return fmt.Sprintf("the rate limit allows %d for now (%s)", l.Replicas, l.Reason)
	}
}

// boundText names min or max if the count stays at that bound, the recommendation does not lead
// away from it, and limitTexts does not name it.
func boundText(d policy.Decision) string {
	switch l, result := d.Limit, winner(d); {
	case result != nil && result.ActivationMilli != nil: // the activation is the cause
	case d.Case != policy.CaseMetrics || d.Recommendation == nil || d.DesiredReplicas != d.CurrentReplicas:
	case l != nil && (l.Reason == "TooManyReplicas" || l.Reason == "TooFewReplicas"):
	case d.DesiredReplicas == d.MinReplicas && *d.Recommendation <= d.MinReplicas:
		return fmt.Sprintf("min is %d", d.MinReplicas)
	case d.DesiredReplicas == d.MaxReplicas && *d.Recommendation > d.MaxReplicas:
		return fmt.Sprintf("max is %d", d.MaxReplicas)
	}
	return ""
}

// unwrittenText explains why the desired count was not written, or was only partly written. It
// returns "" if it was written.
func unwrittenText(d policy.Decision, became api.Evaluation) string {
	if text := heldByText(d); text != "" {
		return "not written: " + text
	}
	if d.Hold != nil {
		return "not written: " + holdText(d.Hold)
	}
	if outcome := outcome(d, became); d.Write && outcome != "written" {
		return outcome
	}
	return ""
}

// heldByText names the pause or mode that prevents a write of the desired count, or returns "".
func heldByText(d policy.Decision) string {
	switch {
	case d.DesiredReplicas == d.CurrentReplicas:
	case d.PausedBy():
		for i := range d.Pauses {
			if pause := &d.Pauses[i]; pause.Direction.Covers(d.CurrentReplicas, d.DesiredReplicas) {
				return clause(pause.Message)
			}
		}
	case d.HeldBy == policy.HeldByMode:
		return fmt.Sprintf("the autoscaler's mode is %q", d.Mode)
	}
	return ""
}

func holdText(hold *policy.Hold) string {
	return fmt.Sprintf("held (%s: %s)", hold.Reason, clause(hold.Message))
}

// outcome describes the result of the write for a decision.
func outcome(d policy.Decision, became api.Evaluation) string {
	failed := "" // the error of the write without the error of the decision
	if became.Error != d.Error {
		failed = clause(strings.TrimSuffix(became.Error, "; "+d.Error))
	}
	switch {
	case became.Written != nil && *became.Written != d.DesiredReplicas:
		return fmt.Sprintf("only partially written: %s", cmp.Or(failed, "no cause is recorded"))
	case became.Written != nil && failed != "":
		return "written, with an error: " + failed
	case became.Written != nil:
		return "written"
	case became.DryRun:
		return "not written: hpad is in a dry run"
	case became.Hold != nil:
		return "not written: " + holdText(became.Hold)
	}
	return "not written: " + cmp.Or(failed, "no cause is recorded")
}

// PartialText lists the metrics with a partial result, each with the warning of its source. It
// returns "" if there are none.
func PartialText(d *policy.Decision) string {
	var partial []string
	for _, result := range d.Metrics {
		if result.Partial != "" && result.Error == "" {
			partial = append(partial, fmt.Sprintf("the result of %s is partial (%s)", metricName(result), clause(result.Partial)))
		}
	}
	return strings.Join(partial, "; ")
}

// emptyText lists the metrics whose empty result counts as zero, or returns "".
func emptyText(d *policy.Decision) string {
	var empty []string
	for _, result := range d.Metrics {
		if result.Current.Empty && result.Error == "" {
			empty = append(empty, metricName(result))
		}
	}
	if len(empty) == 0 {
		return ""
	}
	return "the result of " + strings.Join(empty, ", ") + " is empty and counts as zero"
}

// failedText lists the failed metrics of a decision that ignored them, or returns "".
func failedText(d policy.Decision) string {
	text := failures(d)
	if text == "" {
		return ""
	}
	failed := 0
	for i := range d.Metrics {
		if d.Metrics[i].Error != "" {
			failed++
		}
	}
	if failed > 1 {
		return fmt.Sprintf("%d metrics failed (%s)", failed, text)
	}
	return "a metric failed (" + text + ")"
}

// failures lists the failed metrics with their errors. If none failed, it returns the error of the
// decision.
func failures(d policy.Decision) string {
	var failed []string
	for i, result := range d.Metrics {
		if result.Error == "" {
			continue
		}
		text := metricName(result) + ": " + clause(result.Error)
		isCause := d.Winner != nil && *d.Winner == i && result.FallsBack()
		if result.Fallback != nil && !isCause {
			text += ", " + FallbackText(result.Fallback, d.Time)
		}
		failed = append(failed, text)
	}
	if len(failed) == 0 {
		return clause(d.Error)
	}
	return strings.Join(failed, "; ")
}

// policyText formats a scaling policy as "Percent 10 per 1m0s".
func policyText(rule policy.ScalingPolicy) string {
	return fmt.Sprintf("%s %d per %s", rule.Type, rule.Value, time.Duration(rule.PeriodSeconds)*time.Second)
}
