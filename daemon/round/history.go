package round

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// historyEntries returns the history entry of a pass if the pass changed the count, a pause, the
// reason of a condition, or the autoscaler's problem.
func historyEntries(name string, following *following, before *Result, after *passResult, settled, dryRun bool, events []policy.Event, err string) []state.Entry {
	// Users' actions are always recorded.
	settled = settled || slices.ContainsFunc(events, policy.Event.IsPause)
	decision, deduper := &after.Decision, &following.obstacle
	known := deduper.Cause()
	obstacle := obstacleOf(decision, after.Outcome, failureOf(decision, after.Outcome, after.failed))
	news, flapped := deduper.Observe(obstacle, decision.Time, settled)
	reasons, turns := followReasons(&following.reasons, &before.Record.Status, &after.Record.Status, decision.Time, settled || news)
	if flapped.Changes == 0 {
		flapped = turns
	}
	after.Since, after.Unreported = deduper.Since(), deduper.Unreported()
	if obstacle == "" && after.Unreported.Changes == 0 {
		after.Unreported = following.reasons.Unreported()
	}
	if obstacle == "" {
		after.Since = time.Time{}
	}
	// A recurring problem also changes the reasons. It is not reported again.
	if !settled && !news && (obstacle != known || !reasons) {
		return nil
	}
	entry := state.Entry{
		Autoscaler: name, Time: decision.Time, Decision: *decision, Events: events, Victims: after.Victims,
		Error: err, Hold: after.Outcome.Hold, DryRun: dryRun, Since: after.Since, Reason: after.Reason.String(),
	}
	if after.Outcome.Kind == policy.Written {
		entry.Written = &after.Outcome.Reached
	}
	if flapped.Changes > 0 {
		entry.Unreported = &state.Unreported{Changes: flapped.Changes, From: flapped.From}
	}
	return []state.Entry{entry}
}

// followReasons reports whether the reasons of the conditions changed. If the reasons alternate,
// for example because a metric is near its target value, it counts the changes instead of reporting
// them. If always is set, the pass gets a history entry in any case.
func followReasons(f *problem.Deduper, before, after *policy.Status, now time.Time, always bool) (news bool, flapped problem.Flapping) {
	same := sameReasons(before, after)
	switch {
	case f.HasState() && same:
		if news, flapped = f.Observe(f.Cause(), now, always); f.IsSettled(now) {
			*f = problem.Deduper{}
		}
		return news, flapped
	case same:
		return false, flapped
	case len(before.Conditions) == 0:
		return true, flapped
	case !f.HasState():
		*f = problem.Restored(reasonsOf(before), time.Time{})
	}
	return f.Observe(reasonsOf(after), now, always)
}

// reasonsOf returns a key for the reasons of all conditions.
func reasonsOf(status *policy.Status) string {
	var parts []string
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		parts = append(parts, string(condition.Type), string(condition.Status), condition.Reason)
	}
	return unique.Make(strings.Join(parts, " ")).Value() // shared by many autoscalers
}

// boundsChange describes a change to min or max, such as "min from 1 to 3".
func boundsChange(before, now state.Bounds) string {
	var changed []string
	if before.Min != now.Min {
		changed = append(changed, fmt.Sprintf("min from %d to %d", before.Min, now.Min))
	}
	if before.Max != now.Max {
		changed = append(changed, fmt.Sprintf("max from %d to %d", before.Max, now.Max))
	}
	return strings.Join(changed, " and ")
}

// failureOf returns a key for the cause of a failed pass, or "" if the pass succeeded.
func failureOf(decision *policy.Decision, outcome policy.Outcome, failed string) string {
	if failed == "" {
		return ""
	}
	if decision.Case == policy.CaseUnreadable {
		return problem.Cause(decision.Error)
	}
	parts := []string{outcome.Error}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Error != "" {
			parts = append(parts, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Error)
		}
	}
	if cause := problem.Cause(parts...); cause != "" {
		return cause
	}
	return problem.Cause(failed)
}

// obstacleOf returns a key for all problems of an autoscaler: the failure of its pass, holds and
// notices of the platform, and partial results. It is empty if there is no problem.
func obstacleOf(decision *policy.Decision, outcome policy.Outcome, failure string) string {
	var parts []string
	for _, hold := range []*policy.Hold{decision.Hold, outcome.Hold} {
		if hold != nil {
			parts = append(parts, hold.Reason, hold.Message)
		}
	}
	for i := range decision.Notices {
		notice := &decision.Notices[i]
		parts = append(parts, string(notice.Condition), notice.Reason, notice.Message)
	}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Partial != "" && metric.Error == "" {
			parts = append(parts, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Partial)
		}
	}
	if cause := problem.Cause(parts...); cause != "" {
		return cause + failure
	}
	return failure
}

func sameReasons(a, b *policy.Status) bool {
	return slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
}
