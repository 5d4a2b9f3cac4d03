package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// Line writes a decision on one line, as "12:00:15 5 → 7: " and its sentence.
func Line(d policy.Decision) string {
	when := d.Time.Format(time.TimeOnly)
	switch {
	case d.Case == policy.CaseUnreadable:
		return fmt.Sprintf("%s ?: %s", when, Sentence(d))
	case d.Write:
		return fmt.Sprintf("%s %d → %d: %s", when, d.CurrentReplicas, d.DesiredReplicas, Sentence(d))
	default:
		return fmt.Sprintf("%s %d: %s", when, d.CurrentReplicas, Sentence(d))
	}
}

// Sentence says in one plain sentence what was decided and why.
func Sentence(d policy.Decision) string {
	switch d.Case {
	case policy.CaseUnreadable:
		return "Nothing is decided, because the target could not be read: " + oneLine(d.Error) + "."
	case policy.CaseDisabled:
		return "The target stays at zero, because it was not hpad that set it to zero."
	case policy.CaseMetricsFailed:
		return fmt.Sprintf("The count stays at %d, because the metrics could not decide: %s.", d.CurrentReplicas, failures(d))
	case policy.CaseAboveMax:
		return change(d) + fmt.Sprintf(", because it is above max (%d)", d.MaxReplicas) + restraints(d) + "."
	case policy.CaseBelowMin:
		return change(d) + fmt.Sprintf(", because it is below min (%d)", d.MinReplicas) + restraints(d) + "."
	case policy.CaseRestored:
		return change(d) + ", " + restoredText(d) + restraints(d) + "."
	}
	return change(d) + because(d) + restraints(d) + "."
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

// change says how the count moves, or that it does not.
func change(d policy.Decision) string {
	goes := "goes"
	if !d.Write {
		goes = "should go"
	}
	switch {
	case d.DesiredReplicas > d.CurrentReplicas:
		return fmt.Sprintf("The count %s up from %d to %d", goes, d.CurrentReplicas, d.DesiredReplicas)
	case d.DesiredReplicas < d.CurrentReplicas:
		return fmt.Sprintf("The count %s down from %d to %d", goes, d.CurrentReplicas, d.DesiredReplicas)
	default:
		return fmt.Sprintf("The count stays at %d", d.CurrentReplicas)
	}
}

// because says what the metrics asked for: as the cause where the count moves
// that way, and as what was not followed where it does not.
func because(d policy.Decision) string {
	if d.Recommendation == nil {
		return ""
	}
	by := "the metrics"
	if d.Winner != nil && *d.Winner >= 0 && *d.Winner < len(d.Metrics) {
		by = winnerText(d.Metrics[*d.Winner])
	}
	wanted := *d.Recommendation
	switch {
	case wanted == d.CurrentReplicas && d.DesiredReplicas == d.CurrentReplicas:
		return ", because " + by + " asks for no other"
	case cmp.Compare(wanted, d.CurrentReplicas) == cmp.Compare(d.DesiredReplicas, d.CurrentReplicas):
		return fmt.Sprintf(", because %s asks for %d", by, wanted)
	default:
		return fmt.Sprintf(", although %s asks for %d", by, wanted)
	}
}

// winnerText names the winning metric with its value and goal.
func winnerText(result policy.MetricResult) string {
	current := CurrentText(result.Current, result.Goal)
	if result.Goal == "" || current == "<unknown>" {
		return metricName(result)
	}
	return fmt.Sprintf("%s (%s of a goal of %s%s)", metricName(result), current, goalText(result.Type, result.Name, result.Goal, result.GoalValue), averageMark(result))
}

// restraints says what kept the count from what was asked for, in the order of
// the algorithm.
func restraints(d policy.Decision) string {
	var said []string
	if s := d.Stabilization; s != nil && s.Binding != nil && d.Recommendation != nil && s.Replicas != *d.Recommendation {
		said = append(said, fmt.Sprintf("the recommendation of %d from %s still holds it at %d",
			s.Binding.Replicas, s.Binding.Time.In(d.Time.Location()).Format(time.TimeOnly), s.Replicas))
	}
	if l := d.Limit; l != nil && l.Limited {
		said = append(said, limitText(d, *l))
	}
	if d.RaisedToMin {
		said = append(said, fmt.Sprintf("coming back from zero means at least min (%d)", d.MinReplicas))
	}
	if b := d.PlatformBound; b != nil {
		said = append(said, fmt.Sprintf("the platform's own bound (%s) is %d", b.Reason, b.Replicas))
	}
	if d.Hold != nil {
		said = append(said, fmt.Sprintf("it is not written while the platform is held (%s: %s)", d.Hold.Reason, strings.TrimSuffix(oneLine(d.Hold.Message), ".")))
	}
	if text := failures(d); text != "" {
		said = append(said, "a metric failed ("+text+")")
	}
	if len(said) == 0 {
		return ""
	}
	return "; " + strings.Join(said, "; ")
}

// limitText says which limit held the count.
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

// failures names the metrics that failed, each with its error; the decision's
// own error where none did.
func failures(d policy.Decision) string {
	var failed []string
	for _, result := range d.Metrics {
		if result.Error != "" {
			failed = append(failed, metricName(result)+": "+strings.TrimSuffix(oneLine(result.Error), "."))
		}
	}
	if len(failed) == 0 {
		return strings.TrimSuffix(oneLine(d.Error), ".")
	}
	return strings.Join(failed, "; ")
}
