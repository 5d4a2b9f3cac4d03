package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// Line writes a decision on one line, as "12:00:15 5 → 7: " and its sentence.
func Line(d policy.Decision, became api.Evaluation) string {
	return d.Time.Format(time.TimeOnly) + " " + Count(d, became) + ": " + Sentence(d, became)
}

// Count writes the count before a pass and, where it wrote one, the count after, as
// "5 → 7"; "-" where it could not be read.
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

// Sentence says in one plain sentence what was decided and why, and what became of
// it, with times in the zone of the decision's own.
func Sentence(d policy.Decision, became api.Evaluation) string {
	switch d.Case {
	case "": // of a pass that panicked
		return "Nothing is decided, because " + d.Message + ": " + clause(d.Error) + "."
	case policy.CaseUnreadable:
		return "Nothing is decided, because the target could not be read: " + clause(d.Error) + "."
	case policy.CaseDisabled:
		return "The target stays at zero, because it was not its metrics that asked for zero" + changedBefore(d) + "."
	case policy.CaseOff:
		return fmt.Sprintf("The count stays at %d, because the autoscaler's mode is off%s.", d.CurrentReplicas, changedBefore(d))
	case policy.CaseMetricsFailed:
		return fmt.Sprintf("The count stays at %d, because %s%s.", d.CurrentReplicas, undecidedText(d), changedBefore(d))
	}
	return change(d, became) + because(d) + restraints(d, became) + "."
}

// undecidedText says why the metrics could not decide. The proposal of one that was
// read is lower where there is one: with a higher one they decide (R25.5).
func undecidedText(d policy.Decision) string {
	best, read := int32(0), false
	for _, result := range d.Metrics {
		if result.Proposes() {
			best, read = max(best, result.Proposal), true
		}
	}
	if !read {
		return "the metrics could not decide: " + failures(d)
	}
	return fmt.Sprintf("nothing is scaled down while a metric fails, although the others ask for %d: %s", best, failures(d))
}

// restoredText says why a count is put back. Decisions of older versions do not
// say what was set.
func restoredText(d policy.Decision) string {
	if d.Restore == nil {
		return "which puts back what somebody else changed"
	}
	return fmt.Sprintf("which puts back what somebody else changed to %d (noticed at %s)",
		d.Restore.Foreign, d.Restore.Since.In(d.Time.Location()).Format(time.TimeOnly))
}

// commandText says whose word the count is.
func commandText(command *policy.Command) string {
	if command == nil || command.Author == "" {
		return "a person set it"
	}
	return command.Author + " set it"
}

func change(d policy.Decision, became api.Evaluation) string {
	if d.DesiredReplicas == d.CurrentReplicas {
		return fmt.Sprintf("The count stays at %d", d.CurrentReplicas)
	}
	way := "up"
	if d.DesiredReplicas < d.CurrentReplicas {
		way = "down"
	}
	switch written := became.Written; {
	case written == nil:
		return fmt.Sprintf("The count should go %s from %d to %d", way, d.CurrentReplicas, d.DesiredReplicas)
	case *written != d.DesiredReplicas:
		return fmt.Sprintf("The count goes from %d to %d, and not %s to %d", d.CurrentReplicas, *written, way, d.DesiredReplicas)
	}
	return fmt.Sprintf("The count goes %s from %d to %d", way, d.CurrentReplicas, d.DesiredReplicas)
}

// because returns why the count is to be another one. What the metrics asked for is
// the cause where the count moves that way, and what was not followed where it does
// not.
func because(d policy.Decision) string {
	switch d.Case {
	case policy.CaseAboveMax:
		return fmt.Sprintf(", because it is above max (%d)", d.MaxReplicas)
	case policy.CaseBelowMin:
		return fmt.Sprintf(", because it is below min (%d)", d.MinReplicas)
	case policy.CaseRestored:
		return ", " + restoredText(d)
	case policy.CaseCommanded:
		return ", because " + commandText(d.Command)
	}
	if d.Recommendation == nil {
		return ""
	}
	asks := "the metrics ask"
	if d.Winner != nil && *d.Winner >= 0 && *d.Winner < len(d.Metrics) {
		asks = winnerText(d, d.Metrics[*d.Winner]) + " asks"
	}
	wanted := *d.Recommendation
	switch {
	case wanted == d.CurrentReplicas && d.DesiredReplicas == d.CurrentReplicas:
		return ", because " + asks + " for no other" + filledText(d)
	case cmp.Compare(wanted, d.CurrentReplicas) == cmp.Compare(d.DesiredReplicas, d.CurrentReplicas):
		return fmt.Sprintf(", because %s for %d", asks, wanted) + unreadyText(d)
	default:
		return fmt.Sprintf(", although %s for %d", asks, wanted) + unreadyText(d)
	}
}

// unreadyText explains that a metric above its goal proposes 0: a goal of the metric as a
// whole multiplies the number of ready instances (R41).
func unreadyText(d policy.Decision) string {
	if d.Winner == nil || *d.Winner < 0 || *d.Winner >= len(d.Metrics) || !proposesUnready(&d.Metrics[*d.Winner]) {
		return ""
	}
	return fmt.Sprintf(" (0 instances are ready, and the ratio %s times 0 is 0)", number(*d.Metrics[*d.Winner].Ratio))
}

// proposesUnready reports whether a metric proposes 0 only because no instance is ready.
func proposesUnready(result *policy.MetricResult) bool {
	return result.Rule == "R41" && result.Error == "" && !result.Within && result.Proposal == 0 && result.BaseCount == 0 && result.Ratio != nil && *result.Ratio > 0
}

// filledText returns that the instances which were not measured made the difference: by
// its value alone the winning metric asks for another count (R36).
func filledText(d policy.Decision) string {
	if d.Winner == nil || *d.Winner < 0 || *d.Winner >= len(d.Metrics) {
		return ""
	}
	result := d.Metrics[*d.Winner]
	if result.CompletedRatio == nil || result.Ratio == nil || result.Groups == nil {
		return ""
	}
	if outside := *result.Ratio > 1+result.ToleranceUp || *result.Ratio < 1-result.ToleranceDown; !outside {
		return ""
	}
	return " once those instances are counted that have no measurement yet"
}

// winnerText names the winning metric with its value and goal.
func winnerText(d policy.Decision, result policy.MetricResult) string {
	if result.FallsBack() {
		return fmt.Sprintf("on_missing (%s) of %s, which has failed since %s,", useText(result.Fallback), MetricName(result), clockText(result.Fallback.FirstFailureTime, d.Time))
	}
	current := currentText(result.Type, result.Name, result.Goal, result.Current)
	if result.Goal == "" || current == "<unknown>" {
		return MetricName(result)
	}
	return fmt.Sprintf("%s (%s of a goal of %s%s)", MetricName(result), current, goalText(result.Type, result.Name, result.Goal, result.GoalValue), averageMark(result))
}

// changedBefore returns that somebody else changed the count since the pass before,
// where that is not the cause of what was decided.
func changedBefore(d policy.Decision) string {
	if d.Foreign == nil || d.Case == policy.CaseRestored {
		return ""
	}
	return fmt.Sprintf("; somebody else had changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas)
}

// restraints returns what kept the count from what was asked for, in the order of
// the algorithm.
func restraints(d policy.Decision, became api.Evaluation) string {
	var said []string
	if s := d.Stabilization; s != nil && s.Binding != nil && d.Recommendation != nil && s.Replicas != *d.Recommendation {
		said = append(said, fmt.Sprintf("the recommendation of %d from %s still holds it at %d",
			s.Binding.Replicas, s.Binding.Time.In(d.Time.Location()).Format(time.TimeOnly), s.Replicas))
	}
	if l := d.Limit; l != nil && l.Limited {
		said = append(said, limitText(d, *l))
	}
	if text := boundText(d); text != "" {
		said = append(said, text)
	}
	if d.RaisedToMin {
		said = append(said, fmt.Sprintf("coming back from zero means at least min (%d)", d.MinReplicas))
	}
	if b := d.PlatformBound; b != nil {
		said = append(said, fmt.Sprintf("the platform's own bound (%s) is %d", b.Reason, b.Replicas))
	}
	if text := HeldByText(d); text != "" {
		said = append(said, "it is not written: "+text)
	}
	if d.Hold != nil {
		said = append(said, heldText(d.Hold))
	}
	if text := writeText(d, became); text != "" {
		said = append(said, text)
	}
	if text := failures(d); text != "" {
		said = append(said, failedText(d)+" ("+text+")")
	}
	if text := PartialText(&d); text != "" {
		said = append(said, text)
	}
	if len(said) == 0 {
		return changedBefore(d)
	}
	return "; " + strings.Join(said, "; ") + changedBefore(d)
}

// PartialText names the metrics with a partial result that did not fail, each with the warning
// of its source; empty without any.
func PartialText(d *policy.Decision) string {
	var partial []string
	for _, result := range d.Metrics {
		if result.Partial != "" && result.Error == "" {
			partial = append(partial, fmt.Sprintf("the result of %s is partial (%s)", MetricName(result), clause(result.Partial)))
		}
	}
	return strings.Join(partial, "; ")
}

// failedText says how many metrics failed, of which a decision has at least one or an
// error of its own.
func failedText(d policy.Decision) string {
	failed := 0
	for i := range d.Metrics {
		if d.Metrics[i].Error != "" {
			failed++
		}
	}
	if failed > 1 {
		return fmt.Sprintf("%d metrics failed", failed)
	}
	return "a metric failed"
}

// HeldByText says what people decided that keeps a count from being written; empty where
// nothing does, or the count is not to be another one.
func HeldByText(d policy.Decision) string {
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

// heldText returns that a hold keeps a count from being written.
func heldText(hold *policy.Hold) string {
	return fmt.Sprintf("it is not written while the platform is held (%s: %s)", hold.Reason, clause(hold.Message))
}

// writeText says why a decision's count was not written, or not the whole of it;
// empty where it was, or there was none to write.
func writeText(d policy.Decision, became api.Evaluation) string {
	failed := writeError(d, became)
	switch {
	case !d.Write:
		return ""
	case became.Written != nil && *became.Written == d.DesiredReplicas:
		if failed != "" {
			return "not all of that went well (" + clause(failed) + ")"
		}
		return ""
	case became.Written != nil:
		return fmt.Sprintf("only %d could be reached (%s)", *became.Written, clause(cmp.Or(failed, "why is not recorded")))
	case became.DryRun:
		return "it is not written, because hpad is in a dry run"
	case became.Hold != nil:
		return heldText(became.Hold)
	default:
		return fmt.Sprintf("it was not written (%s)", clause(cmp.Or(failed, "why is not recorded")))
	}
}

// writeError is the error of a decision's write alone, without the decision's own.
func writeError(d policy.Decision, became api.Evaluation) string {
	if became.Error == d.Error {
		return ""
	}
	return strings.TrimSuffix(became.Error, "; "+d.Error)
}

func limitText(d policy.Decision, l policy.Limit) string {
	switch {
	case l.Reason == "TooManyReplicas":
		return fmt.Sprintf("max allows %d", l.Replicas)
	case l.Reason == "TooFewReplicas":
		return fmt.Sprintf("min allows no fewer than %d", l.Replicas)
	case l.Policy != nil:
		return fmt.Sprintf("the policy %s allows %d for now (%s)", PolicyText(*l.Policy), l.Replicas, l.Reason)
	case l.Replicas == d.CurrentReplicas:
		return fmt.Sprintf("this direction is not allowed (%s)", l.Reason)
	default:
		return fmt.Sprintf("the rate limit allows %d for now (%s)", l.Replicas, l.Reason)
	}
}

// boundText names min or max if the count stays at it because of another step.
func boundText(d policy.Decision) string {
	switch l := d.Limit; {
	case d.Case != policy.CaseMetrics || d.Recommendation == nil || d.DesiredReplicas != d.CurrentReplicas:
	case l != nil && (l.Reason == "TooManyReplicas" || l.Reason == "TooFewReplicas"):
	case d.DesiredReplicas == d.MinReplicas && *d.Recommendation <= d.MinReplicas:
		return fmt.Sprintf("min is %d", d.MinReplicas)
	case d.DesiredReplicas == d.MaxReplicas && *d.Recommendation > d.MaxReplicas:
		return fmt.Sprintf("max is %d", d.MaxReplicas)
	}
	return ""
}

// failures names the metrics that failed, each with its error; the decision's
// own error where none did.
func failures(d policy.Decision) string {
	var failed []string
	for i, result := range d.Metrics {
		if result.Error != "" {
			text := MetricName(result) + ": " + clause(result.Error)
			if said := d.Winner != nil && *d.Winner == i && result.FallsBack(); result.Fallback != nil && !said {
				text += ", " + FallbackText(result.Fallback, d.Time)
			}
			failed = append(failed, text)
		}
	}
	if len(failed) == 0 {
		return clause(d.Error)
	}
	return strings.Join(failed, "; ")
}

// PolicyText writes a scaling policy as "Percent 10 per 1m0s".
func PolicyText(rule policy.ScalingPolicy) string {
	return fmt.Sprintf("%s %d per %s", rule.Type, rule.Value, time.Duration(rule.PeriodSeconds)*time.Second)
}

// Outcome says what is recorded of a decision's write.
func Outcome(view api.Explanation, d policy.Decision) string {
	became := view.Evaluation
	failed := writeError(d, became)
	switch {
	case became.Written != nil && *became.Written != d.DesiredReplicas:
		return fmt.Sprintf("written in part, %d of %d: %s", *became.Written, d.DesiredReplicas, cmp.Or(OneLine(failed), "why is not recorded"))
	case became.Written != nil && failed != "":
		return "written, and not all of it went well: " + OneLine(failed)
	case became.Written != nil:
		return "written"
	case became.DryRun:
		return "not written: hpad is in a dry run"
	case became.Hold != nil:
		return "not written: " + became.Hold.Reason + ": " + OneLine(became.Hold.Message)
	}
	for _, condition := range view.Status.Conditions {
		if condition.Type == policy.AbleToScale && condition.Status == policy.ConditionFalse {
			return "not written: " + condition.Reason + ": " + OneLine(condition.Message)
		}
	}
	if failed != "" {
		return "not written: " + OneLine(failed)
	}
	return "no write is recorded"
}
