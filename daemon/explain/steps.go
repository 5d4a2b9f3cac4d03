package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Write writes the last decision of an autoscaler, every step with its numbers
// in the order of the algorithm, and ends with one plain sentence. Times are in a
// zone. The error is that of w.
func Write(w io.Writer, view api.Explanation, zone *time.Location) error {
	p := &steps{}
	p.field("Autoscaler", "%s", view.Name)
	p.field("Target", "%s (%s)", view.Reference, view.Kind)
	if text := LabelsText(view.Discovery); text != "" {
		p.field("Its labels", "%s", text)
	}
	if view.Decision == nil {
		p.undecided(view, zone)
	} else {
		p.decided(view, in(zone, *view.Decision))
	}
	_, err := w.Write(p.text.Bytes())
	return err
}

// steps is the text while it grows; steps are numbered.
type steps struct {
	text  bytes.Buffer
	steps int
}

func (p *steps) field(name, format string, args ...any) {
	fmt.Fprintf(&p.text, "%-13s%s\n", name+":", fmt.Sprintf(format, args...))
}

func (p *steps) step(format string, args ...any) {
	p.steps++
	fmt.Fprintf(&p.text, "\n%d. %s\n", p.steps, fmt.Sprintf(format, args...))
}

func (p *steps) line(depth int, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n"+strings.Repeat("  ", depth+2))
	fmt.Fprintf(&p.text, "%s%s\n", strings.Repeat("  ", depth+1), text)
}

func (p *steps) undecided(view api.Explanation, zone *time.Location) {
	p.evaluation(view, zone, false)
	sentence := "There is no decision yet: the first pass has not ended."
	if view.Evaluation.Error != "" {
		sentence = "There is no decision yet: " + OneLine(view.Evaluation.Error) + "."
	}
	fmt.Fprintf(&p.text, "\n%s\n", sentence)
}

func (p *steps) decided(view api.Explanation, d policy.Decision) {
	p.field("Decided", "%s, evaluated every %s", Stamp(d.Time), time.Duration(view.SyncPeriodSeconds*float64(time.Second)))
	p.agreed(view, d)
	p.evaluation(view, d.Time.Location(), view.Evaluation.Error == d.Error || d.Write)
	p.read(d)
	p.metrics(view, d)
	p.recommendation(d)
	p.stabilization(d)
	p.limit(d)
	p.afterLimit(d)
	p.result(view, d)
	p.drains(view, d.Time.Location())
	p.next(view, d)
	fmt.Fprintf(&p.text, "\n%s\n", Sentence(d, view.Evaluation))
}

// next adds what would have to happen for the count to change.
func (p *steps) next(view api.Explanation, d policy.Decision) {
	lines := Next(view.Next, view, d.Time.Location())
	if len(lines) == 0 {
		return
	}
	p.step("Next")
	for _, line := range lines {
		p.line(1, "%s", line)
	}
}

func (p *steps) agreed(view api.Explanation, d policy.Decision) {
	until, next := view.AgreedUntil.In(d.Time.Location()), view.NextRecorded.In(d.Time.Location())
	switch {
	case view.AgreedUntil.IsZero():
	case view.NextRecorded.IsZero():
		p.field("Agreed", "later passes, up to the last one at %s", Stamp(until))
	case until.Before(next):
		p.field("Agreed", "later passes before %s; from then on causes took turns, and the next decision is recorded at %s", Stamp(until), Stamp(next))
	default:
		p.field("Agreed", "later passes before %s, when the next decision is recorded", Stamp(until))
	}
}

// evaluation adds what is wrong with the passes themselves, if anything; an error
// that the decision that follows has, and is not old, is shown there.
func (p *steps) evaluation(view api.Explanation, zone *time.Location, shown bool) {
	evaluation := view.Evaluation
	if evaluation.Unevaluated && evaluation.QuarantinedUntil.IsZero() {
		last := "never"
		if !evaluation.Last.IsZero() {
			last = "last at " + Stamp(evaluation.Last.In(zone))
		}
		p.field("Warning", "not evaluated for three periods (%s); what follows is old", last)
	}
	if !evaluation.QuarantinedUntil.IsZero() {
		p.field("Warning", "quarantined until %s", Stamp(evaluation.QuarantinedUntil.In(zone)))
	}
	if !evaluation.Since.IsZero() {
		p.field("Cause", "the same since %s%s", Stamp(evaluation.Since.In(zone)), turns(evaluation.Untold, zone))
	}
	if evaluation.Error != "" && (!shown || evaluation.Unevaluated) {
		p.field("Error", "%s", OneLine(evaluation.Error))
	}
}

func turns(untold *api.Untold, zone *time.Location) string {
	if untold == nil {
		return ""
	}
	return fmt.Sprintf("; others came and went since %s, in %d changes", Stamp(untold.From.In(zone)), untold.Changes)
}

func (p *steps) read(d policy.Decision) {
	p.step("Read the target (R25)")
	if d.Case == policy.CaseUnreadable {
		p.line(1, "it could not be read: %s", d.Error)
		return
	}
	p.line(1, "%s wanted, %d observed; min %d, max %d", Replicas(d.CurrentReplicas), d.StatusReplicas, d.MinReplicas, d.MaxReplicas)
	if d.Foreign != nil {
		p.line(1, "somebody else changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas)
	}
	if d.Restore != nil {
		p.line(1, "%s to be put back, since somebody else's change of %s", Replicas(d.Restore.Replicas), Stamp(d.Restore.Since.In(d.Time.Location())))
	}
	if d.Mode != policy.ModeOn {
		p.line(1, "mode: %s", d.Mode)
	}
	for _, pause := range d.Pauses {
		p.line(1, "%s", pause.Message)
	}
	for _, notice := range d.Notices {
		p.line(1, "%s, %s: %s", notice.Condition, notice.Reason, notice.Message)
	}
	p.line(1, "%s", caseText(d.Case))
}

func caseText(c policy.Case) string {
	switch c {
	case policy.CaseDisabled:
		return "zero replicas that its metrics did not ask for: autoscaling is off until somebody raises the count (R51)"
	case policy.CaseOff:
		return "the mode is off: metrics are not read"
	case policy.CaseCommanded:
		return "a person set the count, and metrics play no part but to be remembered"
	case policy.CaseAboveMax:
		return "more than max: the count goes to max, and metrics play no part (R25.4b)"
	case policy.CaseBelowMin:
		return "fewer than min: the count goes to min, and metrics play no part (R25.4c)"
	case policy.CaseRestored:
		return "the count that was changed is put back, and metrics play no part but to be remembered"
	case policy.CaseMetrics:
		return "the metrics decide (R25.5)"
	case policy.CaseMetricsFailed:
		return "the metrics were to decide, and could not (R47)"
	default:
		return string(c)
	}
}

func (p *steps) recommendation(d policy.Decision) {
	if d.Raw == nil {
		return
	}
	p.step("Merge the proposals (R46)")
	if d.Winner != nil && *d.Winner >= 0 && *d.Winner < len(d.Metrics) {
		p.line(1, "[%d] %s has the highest: %d", *d.Winner, MetricName(d.Metrics[*d.Winner]), *d.Raw)
	} else {
		p.line(1, "merged proposal: %d", *d.Raw)
	}
	switch {
	case d.Recommendation != nil:
		p.line(1, "recommendation, kept for the stabilization window: %d", *d.Recommendation)
	case d.Case == policy.CaseMetricsFailed:
		p.line(1, "nothing is recommended: with a failed metric the count may not go below %d (R47)", d.CurrentReplicas)
	default:
		p.line(1, "nothing is recommended")
	}
}

func (p *steps) stabilization(d policy.Decision) {
	s := d.Stabilization
	if s == nil {
		return
	}
	p.step("Stabilize over the windows, up %s, down %s (R55, R62)", s.UpWindow, s.DownWindow)
	if s.Binding != nil {
		p.line(1, "held at %d by the recommendation of %d made at %s", s.Replicas, s.Binding.Replicas, Stamp(s.Binding.Time.In(d.Time.Location())))
		if !s.BindingLeaves.IsZero() {
			p.line(1, "which counts up to %s, %s after this decision", Stamp(s.BindingLeaves.In(d.Time.Location())), s.BindingLeaves.Sub(d.Time).Round(time.Second))
		}
	} else {
		p.line(1, "nothing that is remembered holds the count: %d", s.Replicas)
	}
	p.line(1, "%s", s.Reason)
}

func (p *steps) limit(d policy.Decision) {
	l := d.Limit
	if l == nil {
		return
	}
	p.step("Limit the speed, and keep to min %d and max %d (R57, R69)", d.MinReplicas, d.MaxReplicas)
	switch {
	case l.Rate != nil && l.Policy != nil:
		p.line(1, "rate: %d at this instant, by the policy %s from %d at the start of its period", *l.Rate, PolicyText(*l.Policy), l.PeriodStart)
	case l.Rate != nil:
		p.line(1, "rate: %d at this instant", *l.Rate)
	}
	if l.Limited {
		p.line(1, "limited to %d (allowed: %d)", l.Replicas, l.Allowed)
	} else {
		p.line(1, "not limited: %d", l.Replicas)
	}
	p.line(1, "%s", l.Reason)
}

func (p *steps) afterLimit(d policy.Decision) {
	if d.RaisedToMin {
		p.step("Come back from zero (R53)")
		p.line(1, "raised to min: %d", d.MinReplicas)
	}
	if bound := d.PlatformBound; bound != nil {
		p.step("Keep to the platform's own bounds")
		p.line(1, "%s: %d instead of %d", bound.Reason, bound.Replicas, bound.Wanted)
	}
	if text := HeldByText(d); text != "" {
		p.step("Ask whether people let the count be written")
		p.line(1, "held: %s", text)
	}
	if hold := d.Hold; hold != nil {
		p.step("Ask whether the platform may be written to")
		p.line(1, "held: %s: %s", hold.Reason, hold.Message)
		if !hold.Until.IsZero() {
			p.line(1, "until %s", Stamp(hold.Until.In(d.Time.Location())))
		}
	}
}

func (p *steps) result(view api.Explanation, d policy.Decision) {
	if d.Case == policy.CaseUnreadable {
		return
	}
	p.step("Result")
	switch {
	case d.Write:
		p.line(1, "%d → %d", d.CurrentReplicas, d.DesiredReplicas)
		p.line(1, "%s", Outcome(view, d))
	case d.DesiredReplicas != d.CurrentReplicas:
		p.line(1, "%d → %d is wanted, and not written", d.CurrentReplicas, d.DesiredReplicas)
	default:
		p.line(1, "%s, no change", Replicas(d.CurrentReplicas))
	}
	p.victims(view)
	if d.Reason != policy.NoReason {
		p.line(1, "reason: %s", d.Reason)
	}
	if d.Message != "" {
		p.line(1, "message: %s", untold(d, d.Message))
	}
	if d.Error != "" && !strings.HasSuffix(d.Message, d.Error) {
		p.line(1, "error: %s", untold(d, d.Error))
	}
}

// untold returns a text without the error of a metric at its end, which stands with
// the metric.
func untold(d policy.Decision, text string) string {
	for _, result := range d.Metrics {
		if rest, ok := strings.CutSuffix(text, ": "+result.Error); ok && result.Error != "" {
			return rest
		}
	}
	return text
}

func (p *steps) victims(view api.Explanation) {
	if view.VictimsError != "" {
		p.line(1, "whom it takes is not known: %s", OneLine(view.VictimsError))
	}
	for _, victim := range view.Victims {
		p.line(1, "takes %s: %s", InstanceText(victim.ID, victim.Name), victim.Reason)
	}
}

// drains adds a step for what is under way with instances that earlier decisions
// took.
func (p *steps) drains(view api.Explanation, zone *time.Location) {
	begun := false
	for _, operation := range view.Drains {
		if operation.State == drain.Ended {
			continue
		}
		if !begun {
			p.step("Under way")
			begun = true
		}
		p.line(1, "%s", DrainText(operation, zone))
	}
}
