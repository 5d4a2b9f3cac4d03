package explain

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Write writes all steps of an autoscaler's last decision in the order of the algorithm, followed
// by its sentence. Times are in zone. The error is from w.
func Write(w io.Writer, view api.Explanation, zone *time.Location) error {
	p := &steps{}
	p.field("Autoscaler", "%s", view.Name)
	p.field("Target", "%s (%s)", view.Reference, view.Kind)
	if text := LabelsText(view.Discovery); text != "" {
		p.field("Labels", "%s", text)
	}
	if text := SchedulesText(view.Schedules); text != "" {
		p.field("Schedules", "%s", text)
	}
	if view.Decision == nil {
		p.undecided(view, zone)
	} else {
		p.decided(view, in(zone, *view.Decision))
	}
	_, err := w.Write(p.text.Bytes())
	return err
}

// steps builds the text with numbered steps.
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
	p.evaluation(view, zone, true)
	if !view.Evaluation.Last.IsZero() {
		p.field("Status", "%d current, %d desired", view.Status.CurrentReplicas, view.Status.DesiredReplicas)
	}
	fmt.Fprintf(&p.text, "\n%s\n", Undecided(view.Evaluation))
}

// Undecided explains in one sentence why there is no decision.
func Undecided(evaluation api.Evaluation) string {
	switch {
	case evaluation.Error == "":
		return "No decision yet: the first pass has not ended."
	case evaluation.IsFromStore():
		return "The last decision and the next change are unknown: " + clause(evaluation.Error) + "."
	}
	return "No decision yet: " + clause(evaluation.Error) + "."
}

func (p *steps) decided(view api.Explanation, d policy.Decision) {
	p.field("Decided", "%s, evaluated every %s", stamp(d.Time), time.Duration(view.SyncPeriodSeconds*float64(time.Second)))
	p.unchanged(view, d)
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

func (p *steps) unchanged(view api.Explanation, d policy.Decision) {
	until, next := view.AgreedUntil.In(d.Time.Location()), view.NextRecorded.In(d.Time.Location())
	switch {
	case view.AgreedUntil.IsZero():
	case view.NextRecorded.IsZero():
		p.field("Repeated", "by all later passes, up to the last one at %s", stamp(until))
	case until.Before(next):
		p.field("Repeated", "by all passes before %s, after which the cause alternated until the next recorded decision at %s", stamp(until), stamp(next))
	default:
		p.field("Repeated", "by all passes until the next recorded decision at %s", stamp(until))
	}
}

// evaluation adds the problems of recent passes. shown reports whether the decision below already
// contains the current error.
func (p *steps) evaluation(view api.Explanation, zone *time.Location, shown bool) {
	evaluation := view.Evaluation
	if evaluation.Unevaluated && evaluation.QuarantinedUntil.IsZero() && !evaluation.Last.IsZero() {
		p.field("Warning", "the following is as of %s, %s", stamp(evaluation.Last.In(zone)), SinceText(&evaluation))
	}
	if !evaluation.QuarantinedUntil.IsZero() {
		p.field("Warning", "quarantined until %s", stamp(evaluation.QuarantinedUntil.In(zone)))
	}
	if !evaluation.Since.IsZero() {
		p.field("Cause", "unchanged since %s%s", stamp(evaluation.Since.In(zone)), alternating(evaluation.Unreported, zone))
	}
	if evaluation.Error != "" && (!shown || evaluation.Unevaluated && view.Decision != nil) {
		p.field("Error", "%s", OneLine(evaluation.Error))
	}
}

func alternating(unreported *api.Unreported, zone *time.Location) string {
	if unreported == nil {
		return ""
	}
	return fmt.Sprintf("; alternating with other causes since %s, %d changes", stamp(unreported.From.In(zone)), unreported.Changes)
}

func (p *steps) read(d policy.Decision) {
	p.step("Read the target (R25)")
	if d.Case == policy.CaseUnreadable {
		p.line(1, "not readable: %s", d.Error)
		return
	}
	p.line(1, "%s wanted, %d observed; min %d, max %d", Replicas(d.CurrentReplicas), d.StatusReplicas, d.MinReplicas, d.MaxReplicas)
	if d.Foreign != nil {
		p.line(1, "an external writer changed the count from %d to %d", d.Foreign.From, d.CurrentReplicas)
	}
	if d.Restore != nil {
		p.line(1, "%s to restore after the external change of %s", Replicas(d.Restore.Replicas), stamp(d.Restore.Since.In(d.Time.Location())))
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
		return "zero replicas that the metrics did not set: autoscaling is disabled until the count is raised (R51)"
	case policy.CaseStopped:
		return "a schedule stops the target (max_replicas = 0): the metrics are not evaluated"
	case policy.CaseOff:
		return "the mode is off: metrics are not read"
	case policy.CaseCommanded:
		return "a user set the count: metrics are only recorded"
	case policy.CaseAboveMax:
		return "more than max: the count becomes max, without the metrics (R25.4b)"
	case policy.CaseBelowMin:
		return "fewer than min: the count becomes min, without the metrics (R25.4c)"
	case policy.CaseNeverStarted:
		return "zero replicas of a target that has never been started: the count becomes initial_replicas, without the metrics"
	case policy.CaseRestored:
		return "the count is restored after an external change: metrics are only recorded"
	case policy.CaseMetrics:
		return "the metrics decide (R25.5)"
	case policy.CaseMetricsFailed:
		return "hpad could not decide, because metrics failed (R47)"
	default:
		return string(c)
	}
}

func (p *steps) recommendation(d policy.Decision) {
	if d.Raw == nil {
		return
	}
	p.step("Merge the proposals (R46)")
	if result := winner(d); result != nil {
		p.line(1, "[%d] %s has the highest proposal: %d", *d.Winner, metricName(*result), *d.Raw)
	} else {
		p.line(1, "merged proposal: %d", *d.Raw)
	}
	switch {
	case d.Outage != nil:
		p.line(1, "%s: %s", reason.NoReadyInstance, outageText(d))
		p.line(1, "recommendation, recorded for the stabilization window: %d", *d.Recommendation)
	case d.Recommendation != nil:
		p.line(1, "recommendation, recorded for the stabilization window: %d", *d.Recommendation)
	case d.Case == policy.CaseMetricsFailed:
		p.line(1, "no recommendation: a failed metric prevents a count below %d (R47)", d.CurrentReplicas)
	default:
		p.line(1, "no recommendation")
	}
}

func (p *steps) stabilization(d policy.Decision) {
	s := d.Stabilization
	if s == nil {
		return
	}
	p.step("Stabilize over the windows, up %s, down %s (R55, R62)", s.UpWindow, s.DownWindow)
	if s.Binding != nil {
		p.line(1, "held at %d by the recommendation of %d made at %s", s.Replicas, s.Binding.Replicas, stamp(s.Binding.Time.In(d.Time.Location())))
		if !s.BindingLeaves.IsZero() {
			p.line(1, "which leaves the window at %s, %s after this decision", stamp(s.BindingLeaves.In(d.Time.Location())), s.BindingLeaves.Sub(d.Time).Round(time.Second))
		}
	} else {
		p.line(1, "not limited by earlier recommendations: %d", s.Replicas)
	}
	p.line(1, "%s", s.Reason)
}

func (p *steps) limit(d policy.Decision) {
	l := d.Limit
	if l == nil {
		return
	}
	p.step("Limit the rate, min %d, max %d (R57, R69)", d.MinReplicas, d.MaxReplicas)
	switch {
	case l.Rate != nil && l.Policy != nil:
		p.line(1, "rate: %d at this instant, by the policy %s from %d at the start of its period", *l.Rate, policyText(*l.Policy), l.PeriodStart)
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
		p.step("Scale from zero (R53)")
		p.line(1, "raised to min: %d", d.MinReplicas)
	}
	if bound := d.PlatformBound; bound != nil {
		p.step("Apply the limits of the platform")
		p.line(1, "%s: %d instead of %d", bound.Reason, bound.Replicas, bound.Wanted)
	}
	if text := heldByText(d); text != "" {
		p.step("Check pauses and mode")
		p.line(1, "held: %s", text)
	}
	if hold := d.Hold; hold != nil {
		p.step("Check whether the platform blocks changes (a hold)")
		p.line(1, "held: %s: %s", hold.Reason, hold.Message)
		if !hold.Until.IsZero() {
			p.line(1, "until %s", stamp(hold.Until.In(d.Time.Location())))
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
		p.line(1, "%s", outcome(d, view.Evaluation))
	case d.DesiredReplicas != d.CurrentReplicas:
		p.line(1, "%d → %d is desired, but not written", d.CurrentReplicas, d.DesiredReplicas)
	default:
		p.line(1, "%s, no change", Replicas(d.CurrentReplicas))
	}
	p.victims(view)
	if d.Reason != policy.NoReason {
		p.line(1, "reason: %s", d.Reason)
	}
	if d.Message != "" {
		p.line(1, "message: %s", withoutMetricError(d, d.Message))
	}
	if d.Error != "" && !strings.HasSuffix(d.Message, d.Error) {
		p.line(1, "error: %s", withoutMetricError(d, d.Error))
	}
}

// withoutMetricError removes a metric's error from the end of a text, because the metric's step
// already shows the error.
func withoutMetricError(d policy.Decision, text string) string {
	for _, result := range d.Metrics {
		if rest, ok := strings.CutSuffix(text, ": "+result.Error); ok && result.Error != "" {
			return rest
		}
	}
	return text
}

func (p *steps) victims(view api.Explanation) {
	if view.VictimsError != "" {
		p.line(1, "instances to remove are unknown: %s", OneLine(view.VictimsError))
	}
	for _, victim := range view.Victims {
		p.line(1, "removes %s: %s", InstanceText(victim.ID, victim.Name), victim.Reason)
	}
}

// drains adds a step for the active drain operations of earlier decisions.
func (p *steps) drains(view api.Explanation, zone *time.Location) {
	started := false
	for _, operation := range view.Drains {
		if operation.State == drain.Ended {
			continue
		}
		if !started {
			p.step("Active drains")
			started = true
		}
		p.line(1, "%s", DrainText(operation, zone))
	}
}
