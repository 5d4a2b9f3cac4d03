package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/policy"
)

// Next says in short lines what would have to happen for the count to change; none where
// that is not known. Times are in a zone.
func Next(next *policy.Next, view api.Explanation, zone *time.Location) []string {
	if next == nil || view.Decision == nil {
		return nil
	}
	t := ahead{next: next, decision: view.Decision, zone: zone}
	var lines []string
	var waits []string
	for _, wait := range next.Waits {
		waits = append(waits, t.wait(wait))
	}
	switch why := strings.Join(waits, "; "); {
	case !next.At.IsZero():
		line := fmt.Sprintf("to %d at %s", next.Replicas, t.when(next.At))
		if asked := view.Decision.Recommendation; asked != nil {
			line += fmt.Sprintf(", if the metrics still ask for %d", *asked)
		}
		if why != "" {
			line += ": " + why
		}
		lines = append(lines, line)
	case why != "":
		lines = append(lines, "waits: "+why)
	}
	if next.Up != nil {
		lines = append(lines, fmt.Sprintf("up at %s at the earliest, with %s", t.when(next.Up.At), t.thresholds(next.Up, 1, " or ")))
	}
	if next.Down != nil {
		lines = append(lines, fmt.Sprintf("down at %s at the earliest, with %s", t.when(next.Down.At), t.thresholds(next.Down, -1, " and ")))
	}
	return lines
}

// ahead is what lines about the next change have in common.
type ahead struct {
	next     *policy.Next
	decision *policy.Decision
	zone     *time.Location
}

// when writes an instant, with its day where that is another one than the decision's.
func (t ahead) when(at time.Time) string {
	return clockText(at, t.decision.Time.In(t.zone))
}

func (t ahead) wait(w policy.Wait) string {
	switch w.Reason {
	case reason.ScaleDownStabilized.String(), reason.ScaleUpStabilized.String():
		return fmt.Sprintf("the window lets go of %d at %s", w.Replicas, t.when(w.Until))
	case reason.ScaleUpLimit.String(), reason.ScaleDownLimit.String():
		return t.rate(w)
	case reason.TooManyReplicas.String():
		return fmt.Sprintf("max (%d) holds it", w.Replicas)
	case reason.TooFewReplicas.String():
		return fmt.Sprintf("min (%d) holds it", w.Replicas)
	case reason.PlatformMax.String(), reason.PlatformMin.String():
		return fmt.Sprintf("the platform's own bound (%s) is %d", w.Reason, w.Replicas)
	case reason.ScalingDisabled.String():
		return "somebody has to raise the count from 0"
	case reason.FailedGetScale.String():
		return "the target has to be read: " + clause(w.Message)
	case reason.Paused.String(), reason.BreakerOpen.String():
		return clause(w.Message)
	case reason.ModeOff.String(), reason.ModeRecommend.String():
		return "its mode (" + w.Reason + ")"
	case "ModeUpOnly", "ModeDownOnly":
		return "this direction is not allowed (" + w.Reason + ")"
	case reason.DryRun.String():
		return "hpad is in a dry run and writes no count"
	case reason.Quarantined.String():
		return "it is quarantined until " + t.when(w.Until)
	case reason.UnknownOutcome.String():
		return w.Message
	}
	if strings.HasPrefix(w.Reason, "FailedGet") {
		if !w.Until.IsZero() {
			return fmt.Sprintf("%s has to be read, or else its on_missing proposes %d at %s", w.Message, w.Replicas, t.when(w.Until))
		}
		return w.Message + " has to be read"
	}
	text := fmt.Sprintf("the platform is held (%s: %s)", w.Reason, clause(w.Message))
	if !w.Until.IsZero() {
		text += " until " + t.when(w.Until)
	}
	return text
}

// rate says which policy binds, and when it allows more.
func (t ahead) rate(w policy.Wait) string {
	what := "the rate"
	if w.Policy != nil {
		what = "the policy " + PolicyText(*w.Policy)
	}
	switch {
	case !w.Until.IsZero():
		return fmt.Sprintf("%s allows %d, and more at %s", what, w.Replicas, t.when(w.Until))
	case w.Policy == nil && w.Replicas == t.next.Count:
		return "this direction is not allowed (" + reason.DirectionDisabled.String() + ")"
	}
	return fmt.Sprintf("%s allows %d", what, w.Replicas)
}

// thresholds names metrics with the values to be passed.
func (t ahead) thresholds(move *policy.Move, sign int64, joint string) string {
	var all []string
	for i := range move.Metrics {
		if threshold := &move.Metrics[i]; threshold.Metric < len(t.decision.Metrics) {
			all = append(all, t.threshold(threshold, sign))
		}
	}
	return strings.Join(all, joint)
}

// threshold writes a metric with the value that has to be passed, or the first one that
// does, in total or per instance: whichever is the shortest number.
func (t ahead) threshold(threshold *policy.Threshold, sign int64) string {
	result := t.decision.Metrics[threshold.Metric]
	passes, reaches := "over", "at least"
	if sign < 0 {
		passes, reaches = "under", "at most"
	}
	var best, text string
	offer := func(way string, value int64, mark string) {
		number := goalText(result.Type, result.Name, result.Goal, value)
		if best == "" || len(number) < len(best) {
			best, text = number, fmt.Sprintf("%s %s %s%s", MetricName(result), way, number, mark)
		}
	}
	if !threshold.Total {
		mark := averageMark(result)
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
