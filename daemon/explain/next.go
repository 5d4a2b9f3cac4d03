package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// Next returns short lines about the next possible changes to the count and their conditions, or
// nil if the changes are unknown. Times are in zone.
func Next(next *policy.Next, view api.Explanation, zone *time.Location) []string {
	if next == nil || view.Decision == nil {
		return nil
	}
	t := forecast{next: next, decision: view.Decision, zone: zone}
	var lines []string
	var waits []string
	for _, wait := range next.Waits {
		waits = append(waits, t.wait(wait))
	}
	switch why := strings.Join(waits, "; "); {
	case !next.At.IsZero():
		line := fmt.Sprintf("to %d at %s", next.Replicas, t.when(next.At)) + t.condition()
		if why != "" {
			line += ": " + why
		}
		lines = append(lines, line)
	case why != "":
		lines = append(lines, "waiting: "+why)
	}
	if next.Up != nil {
		lines = append(lines, fmt.Sprintf("up at %s at the earliest, if %s", t.when(next.Up.At), t.thresholds(next.Up, 1, " or ")))
	}
	if next.Down != nil {
		lines = append(lines, fmt.Sprintf("down at %s at the earliest, if %s", t.when(next.Down.At), t.thresholds(next.Down, -1, " and ")))
	}
	return lines
}

// BoundText formats a bound with the schedule that sets it, such as "5 (office, ramp)". by is empty if
// no schedule sets it.
func BoundText(bound int32, by string, s *api.Schedules) string {
	switch {
	case by == "":
		return strconv.Itoa(int(bound))
	case slices.Contains(s.Ramps, by):
		return fmt.Sprintf("%d (%s, ramp)", bound, by)
	}
	return fmt.Sprintf("%d (%s)", bound, by)
}

// SchedulesText describes the active schedules and the next change. It is empty without schedules.
func SchedulesText(s *api.Schedules) string {
	if s == nil {
		return ""
	}
	text := "none is active"
	if len(s.Active) > 0 {
		names := slices.Clone(s.Active)
		for i, name := range names {
			if slices.Contains(s.Ramps, name) {
				names[i] += " (ramp)"
			}
		}
		text = strings.Join(names, ", ")
	}
	if s.Next.IsZero() {
		return text
	}
	return text + ", next change at " + s.Next.Format("2006-01-02 15:04 MST")
}

// forecast formats the lines about the next change.
type forecast struct {
	next     *policy.Next
	decision *policy.Decision
	zone     *time.Location
}

// condition returns the condition or the cause of the predicted change. hpad corrects a count outside
// the bounds without the metrics (R25.4).
func (t forecast) condition() string {
	switch d := t.decision; {
	case t.next.Count > d.MaxReplicas:
		return fmt.Sprintf(", because %d is above max (%d)", t.next.Count, d.MaxReplicas)
	case t.next.Count != 0 && t.next.Count < d.MinReplicas:
		return fmt.Sprintf(", because %d is below min (%d)", t.next.Count, d.MinReplicas)
	case d.Outage != nil:
		return fmt.Sprintf(", if no instance is ready and the metrics still suggest %d", d.Outage.Proposed)
	case d.Recommendation != nil:
		return fmt.Sprintf(", if the metrics still suggest %d", *d.Recommendation)
	}
	return ""
}

func (t forecast) when(at time.Time) string {
	return clockText(at, t.decision.Time.In(t.zone))
}

func (t forecast) wait(w policy.Wait) string {
	switch w.Reason {
	case reason.ScaleDownStabilized.String(), reason.ScaleUpStabilized.String():
		return fmt.Sprintf("the recommendation of %d leaves the window at %s", w.Replicas, t.when(w.Until))
	case reason.ScaleUpLimit.String(), reason.ScaleDownLimit.String():
		return t.rate(w)
	case reason.TooManyReplicas.String():
		if w.Replicas == 0 {
			return "a schedule stops the target (max_replicas = 0)"
		}
		return fmt.Sprintf("limited by max (%d)", w.Replicas)
	case reason.TooFewReplicas.String():
		return fmt.Sprintf("limited by min (%d)", w.Replicas)
	case reason.PlatformMax.String(), reason.PlatformMin.String():
		return fmt.Sprintf("the platform's limit (%s) is %d", w.Reason, w.Replicas)
	case reason.ScalingDisabled.String():
		return "an operator must raise the count from 0"
	case reason.FailedGetScale.String():
		return "the target cannot be read: " + clause(w.Message)
	case reason.Paused.String(), reason.BreakerOpen.String():
		return clause(w.Message)
	case reason.ModeOff.String(), reason.ModeRecommend.String():
		return "the mode of the autoscaler (" + w.Reason + ")"
	case "ModeUpOnly", "ModeDownOnly":
		return "this direction is disabled (" + w.Reason + ")"
	case reason.NoReadyInstance.String():
		return "no instance is ready, and outage_hold ends at " + t.when(w.Until)
	case reason.DryRun.String():
		return "hpad is in a dry run and does not write counts"
	case reason.NotOwner.String():
		return "the owner's lease has ended; the owner will not scale until it reaches the cluster store again"
	case reason.Quarantined.String():
		return "quarantined until " + t.when(w.Until)
	case reason.UnknownOutcome.String():
		return w.Message
	}
	if strings.HasPrefix(w.Reason, "FailedGet") {
		if !w.Until.IsZero() {
			return fmt.Sprintf("no value for %s; its on_missing proposes %d at %s", w.Message, w.Replicas, t.when(w.Until))
		}
		return "no value for " + w.Message
	}
	text := fmt.Sprintf("held (%s: %s)", w.Reason, clause(w.Message))
	if !w.Until.IsZero() {
		text += " until " + t.when(w.Until)
	}
	return text
}

// rate names the policy that limits the count and the time when it allows a larger change.
func (t forecast) rate(w policy.Wait) string {
	limit := "the rate limit"
	if w.Policy != nil {
		limit = "the policy " + policyText(*w.Policy)
	}
	switch {
	case !w.Until.IsZero():
		return fmt.Sprintf("%s allows %d, and more at %s", limit, w.Replicas, t.when(w.Until))
	case w.Policy == nil && w.Replicas == t.next.Count:
		return "this direction is disabled (" + reason.DirectionDisabled.String() + ")"
	}
	return fmt.Sprintf("%s allows %d", limit, w.Replicas)
}

// thresholds lists the metrics with the values that would cause a change.
func (t forecast) thresholds(move *policy.Move, sign int64, separator string) string {
	var all []string
	for i := range move.Metrics {
		if threshold := &move.Metrics[i]; threshold.Metric < len(t.decision.Metrics) {
			all = append(all, t.threshold(threshold, sign))
		}
	}
	return strings.Join(all, separator)
}

// threshold formats a metric with the value that it must pass or reach, in total or per instance.
// It chooses the form with the shortest number.
func (t forecast) threshold(threshold *policy.Threshold, sign int64) string {
	result := t.decision.Metrics[threshold.Metric]
	passes, reaches := "over", "at least"
	if sign < 0 {
		passes, reaches = "under", "at most"
	}
	var best, text string
	offer := func(relation string, value int64, mark string) {
		number := targetValueText(isBinary(&result), result.TargetType, value)
		if best == "" || len(number) < len(best) {
			best, text = number, fmt.Sprintf("%s is %s %s%s", metricName(result), relation, number, mark)
		}
	}
	if !threshold.Total {
		mark := valueMark(result)
		offer(passes, threshold.Value, mark)
		offer(reaches, threshold.Value+sign, mark)
		return text
	}
	if replicas := int64(t.decision.StatusReplicas); replicas > 0 {
		if threshold.Value%replicas == 0 {
			offer(passes, threshold.Value/replicas, " per instance")
		}
		if (threshold.Value+sign)%replicas == 0 {
			offer(reaches, (threshold.Value+sign)/replicas, " per instance")
		}
	}
	offer(passes, threshold.Value, " in total")
	offer(reaches, threshold.Value+sign, " in total")
	return text
}
