// Package show formats data of the daemon for a terminal, in the style of kubectl.
package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/drain"
)

// Autoscaler writes one autoscaler in the format of "kubectl describe hpa". The parameter most is
// the maximum number of instances that it lists. Ages are relative to now, and times are in the
// time zone of now.
func Autoscaler(w io.Writer, view api.Autoscaler, list api.InstanceList, most int, now time.Time) error {
	table := newTable(w)
	d := description{w: table, now: now, stored: view.Evaluation.IsFromStore()}
	d.head(view)
	d.metrics(view)
	d.bounds(view)
	d.behavior(view.Spec.Behavior)
	d.line(0, "%s replicas:\t%s current / %s desired", view.Kind, explain.ReplicasText(view), explain.DesiredText(view))
	if restore := view.Restore; restore != nil {
		d.line(0, "To be restored:\t%d replicas after an external change to %d, noticed %s", restore.Replicas, restore.Foreign, d.sinceOrNever(restore.Since))
	}
	counts := view.Instances
	if len(list.Instances) > 0 { // the list is newer than the last pass
		counts = list.Counts()
	}
	if counts != (api.Instances{}) {
		d.line(0, "Instances:\t%s", explain.InstancesText(counts))
	}
	if err := d.instances(list, most); err != nil {
		return err
	}
	d.evaluation(view)
	d.next(view)
	d.conditions(view.Status.Conditions)
	d.drains(view.Drains)
	d.events(view.Events)
	return table.Flush()
}

// description writes lines with columns separated by tabs.
type description struct {
	w   io.Writer
	now time.Time
	// stored is the result of [api.Evaluation.IsFromStore].
	stored bool
}

func (d description) line(depth int, format string, args ...any) {
	_, _ = fmt.Fprintf(d.w, "%s%s\n", strings.Repeat("  ", depth), fmt.Sprintf(format, args...))
}

func (d description) head(view api.Autoscaler) {
	d.line(0, "Name:\t%s", view.Name)
	d.line(0, "Reference:\t%s", view.Reference)
	d.line(0, "Kind:\t%s", view.Kind)
	for i, label := range slices.Sorted(maps.Keys(view.Labels)) {
		title := ""
		if i == 0 {
			title = "Labels:"
		}
		d.line(0, "%s\t%s=%s", title, label, explain.OneLine(view.Labels[label]))
	}
	if text := explain.LabelsText(view.Discovery); text != "" {
		d.line(0, "Target's labels:\t%s", text)
	}
	if view.Created.IsZero() {
		d.line(0, "CreationTimestamp:\t%s", unknown)
		d.line(0, "Last Scale:\t%s", unknown)
		return
	}
	d.line(0, "CreationTimestamp:\t%s", d.instant(view.Created))
	d.line(0, "Last Scale:\t%s", d.sinceOrNever(view.Status.LastScaleTime))
}

func (d description) metrics(view api.Autoscaler) {
	if len(view.Spec.Metrics) == 0 {
		d.line(0, "Metrics:\t%s", none)
		return
	}
	d.line(0, "Metrics:\t( current / target )")
	for i, spec := range view.Spec.Metrics {
		var status policy.MetricStatus
		if i < len(view.Status.Metrics) {
			status = view.Status.Metrics[i]
		}
		d.line(1, "%s:\t%s", explain.MetricTitle(spec), explain.MetricValues(spec, status))
		if spec.ActivationMilli != nil {
			d.line(2, "activation:\tabove %s, at 0 replicas", explain.ValueText(&spec, *spec.ActivationMilli))
		}
		if i < len(view.Inputs) {
			d.line(2, "from:\t%s", explain.InputText(view.Inputs[i]))
			if text := explain.AgeText(view.Inputs[i]); text != "" {
				d.line(2, "oldest sample:\t%s", text)
			}
		}
		if view.Decision != nil && i < len(view.Decision.Metrics) {
			for _, warning := range view.Decision.Metrics[i].Warnings {
				d.line(2, "warning:\t%s", explain.OneLine(warning))
			}
			if result := &view.Decision.Metrics[i]; result.Error != "" && result.Fallback == nil {
				d.line(2, "failed:\t%s", explain.OneLine(result.Error))
			}
		}
		d.missing(spec, view.Decision, i)
	}
}

// missing adds a metric's on_missing setting and its current effect.
func (d description) missing(spec policy.MetricSpec, decision *policy.Decision, i int) {
	if spec.OnMissing == nil {
		return
	}
	d.line(2, "on missing:\t%s", explain.OnMissingText(*spec.OnMissing))
	if decision == nil || i >= len(decision.Metrics) || decision.Metrics[i].Fallback == nil {
		return
	}
	result := decision.Metrics[i]
	d.line(2, "failed:\t%s, %s", explain.OneLine(result.Error), explain.FallbackText(result.Fallback, d.now))
}

func (d description) bounds(view api.Autoscaler) {
	d.line(0, "Min replicas:\t%s", minText(view))
	d.line(0, "Max replicas:\t%s", maxText(view))
	if text := explain.SchedulesText(view.Schedules); text != "" {
		d.line(0, "Schedules:\t%s", text)
	}
}

func (d description) behavior(behavior *policy.Behavior) {
	if behavior == nil {
		return
	}
	d.line(0, "Behavior:")
	d.rules("Scale Up:", behavior.ScaleUp)
	d.rules("Scale Down:", behavior.ScaleDown)
}

func (d description) rules(title string, rules *policy.ScalingRules) {
	if rules == nil {
		return
	}
	d.line(1, "%s", title)
	window := unset
	if rules.StabilizationWindowSeconds != nil {
		window = fmt.Sprintf("%d seconds", *rules.StabilizationWindowSeconds)
	}
	d.line(2, "Stabilization Window: %s", window)
	if rules.Tolerance != nil {
		d.line(2, "Tolerance: %g", *rules.Tolerance)
	}
	selected := unset
	if rules.SelectPolicy != "" {
		selected = string(rules.SelectPolicy)
	}
	d.line(2, "Select Policy: %s", selected)
	if len(rules.Policies) == 0 {
		d.line(2, "Policies: %s", none)
		return
	}
	d.line(2, "Policies:")
	for _, rule := range rules.Policies {
		d.line(3, "- Type: %s\tValue: %d\tPeriod: %d seconds", rule.Type, rule.Value, rule.PeriodSeconds)
	}
}

func (d description) evaluation(view api.Autoscaler) {
	evaluation := view.Evaluation
	d.line(0, "Evaluation:")
	d.line(1, "Every:\t%s", seconds(view.SyncPeriodSeconds))
	last := d.sinceOrNever(evaluation.Last)
	if d.stored && evaluation.Last.IsZero() {
		last = unknown
	} else if !evaluation.Last.IsZero() && !d.stored {
		last += fmt.Sprintf(", took %s", seconds(evaluation.DurationSeconds).Round(time.Millisecond))
	}
	d.line(1, "Last:\t%s", last)
	next := d.instant(evaluation.Next)
	if d.stored {
		next = unknown
	}
	d.line(1, "Next:\t%s", next)
	d.line(1, "Late:\t%d", evaluation.Late)
	if evaluation.Reason != "" {
		d.line(1, "Reason:\t%s", evaluation.Reason)
	}
	if evaluation.DryRun {
		d.line(1, "Mode:\tdry run, counts are not written")
	}
	if view.Mode != policy.ModeOn {
		d.line(1, "Mode:\t%s", view.Mode)
	}
	for _, pause := range view.Pauses {
		d.line(1, "Paused:\t%s", explain.OneLine(pause.Message))
		if !pause.Breaker { // the message of a breaker's pause contains the time
			d.line(1, "Paused since:\t%s", d.sinceOrNever(pause.Since))
		}
	}
	if evaluation.StateLost != "" {
		d.line(1, "State:\t%s", explain.OneLine(evaluation.StateLost))
	}
	if evaluation.Unevaluated && !evaluation.Last.IsZero() {
		d.line(1, "Problem:\tstatus as of %s, %s", d.sinceOrNever(evaluation.Last), explain.SinceText(&evaluation))
	} else if evaluation.Unevaluated && evaluation.Error == "" {
		d.line(1, "Problem:\tnot evaluated for three periods")
	}
	if !evaluation.QuarantinedUntil.IsZero() {
		d.line(1, "Quarantined:\tuntil %s", d.instant(evaluation.QuarantinedUntil))
	}
	d.line(1, "Error:\t%s", orNone(explain.OneLine(evaluation.Error)))
	if evaluation.Since.IsZero() {
		return
	}
	since := d.sinceOrNever(evaluation.Since)
	if unreported := evaluation.Unreported; unreported != nil {
		since += fmt.Sprintf("; alternating with other causes since %s, %d changes", d.instant(unreported.From), unreported.Changes)
	}
	d.line(1, "Cause since:\t%s", since)
}

func (d description) next(view api.Autoscaler) {
	for i, line := range explain.Next(view.Next, view.Explanation(), d.now.Location()) {
		title := ""
		if i == 0 {
			title = "Next change:"
		}
		d.line(0, "%s\t%s", title, line)
	}
}

// table adds the title and the header of a table.
func (d description) table(title string, rows int, head ...string) {
	switch {
	case rows == 0 && d.stored:
		d.line(0, "%s:\t%s: only the owner of the fleet has them", title, unknown)
		return
	case rows == 0:
		d.line(0, "%s:\t%s", title, none)
		return
	}
	d.line(0, "%s:", title)
	for _, line := range head {
		d.line(1, "%s", line)
	}
}

func (d description) conditions(conditions []policy.Condition) {
	d.table("Conditions", len(conditions), "Type\tStatus\tReason\tMessage", "----\t------\t------\t-------")
	for _, c := range conditions {
		d.line(1, "%s\t%s\t%s\t%s", c.Type, c.Status, c.Reason, explain.OneLine(c.Message))
	}
}

// drains adds the active and recent drain operations.
func (d description) drains(operations []drain.Operation) {
	if len(operations) == 0 {
		return
	}
	d.line(0, "Drains:")
	for _, operation := range operations {
		d.line(1, "%s", explain.DrainText(operation, d.now.Location()))
	}
}

func (d description) events(events []api.Event) {
	d.table("Events", len(events), "Type\tReason\tAge\tFrom\tMessage", "----\t------\t----\t----\t-------")
	for _, event := range events {
		when := age(event.Last, d.now)
		if event.Count > 1 {
			when += fmt.Sprintf(" (x%d over %s)", event.Count, age(event.First, d.now))
		}
		d.line(1, "%s\t%s\t%s\thpad\t%s", event.Kind, event.Reason, when, explain.OneLine(event.Message))
	}
}

func (d description) instant(at time.Time) string {
	if at.IsZero() {
		return none
	}
	return at.In(d.now.Location()).Format(time.RFC1123Z)
}

func (d description) sinceOrNever(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return d.instant(at) + " (" + duration.HumanDuration(d.now.Sub(at)) + " ago)"
}
