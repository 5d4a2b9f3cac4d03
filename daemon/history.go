package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// historyOf follows what hinders an autoscaler and the reasons of its conditions, and
// returns the entry of a pass that is worth one: it settled something, a pause began or
// ended, its reasons are news, or what is wrong is.
func historyOf(name string, following *following, before *publication, after *result, settled, dryRun bool, events []policy.Event, err string) []state.Entry {
	// What people did is told each time, however often.
	settled = settled || slices.ContainsFunc(events, policy.Event.TellsOfPause)
	decision, hindered := &after.Decision, &following.hindrance
	known := hindered.Cause()
	hindrance := hindranceOf(decision, after.Outcome, failureOf(decision, after.Outcome, after.failed))
	news, flapped := hindered.Follow(hindrance, decision.Time, settled)
	reasons, turns := followReasons(&following.reasons, &before.record.Status, &after.record.Status, decision.Time, settled || news)
	if flapped.Changes == 0 {
		flapped = turns
	}
	after.Since, after.Untold = hindered.Since(), hindered.Untold()
	if hindrance == "" && after.Untold.Changes == 0 {
		after.Untold = following.reasons.Untold()
	}
	if hindrance == "" {
		after.Since = time.Time{}
	}
	// A cause that comes and goes changes the reasons too, which is not news again.
	if !settled && !news && (hindrance != known || !reasons) {
		return nil
	}
	entry := state.Entry{
		Autoscaler: name, Time: decision.Time, Decision: *decision, Events: events, Victims: after.Victims,
		Error: err, Hold: after.Outcome.Hold, DryRun: dryRun, Since: after.Since, Reason: after.reason.String(),
	}
	if after.Outcome.Kind == policy.Written {
		entry.Written = &after.Outcome.Reached
	}
	if flapped.Changes > 0 {
		entry.Untold = &state.Untold{Changes: flapped.Changes, From: flapped.From}
	}
	return []state.Entry{entry}
}

// followReasons follows the reasons of the conditions, as causes are followed: those that
// take turns, as those of a metric beside its goal do, are counted. An autoscaler whose
// reasons stay is not followed. With always the pass has an entry whatever they are.
func followReasons(f *trouble.Follower, before, after *policy.Status, now time.Time, always bool) (news bool, flapped trouble.Flapping) {
	same := sameReasons(before, after)
	switch {
	case f.Follows() && same:
		if news, flapped = f.Follow(f.Cause(), now, always); f.Rests(now) {
			*f = trouble.Follower{}
		}
		return news, flapped
	case same:
		return false, flapped
	case len(before.Conditions) == 0:
		return true, flapped
	case !f.Follows():
		*f = trouble.Known(reasonsOf(before), time.Time{})
	}
	return f.Follow(reasonsOf(after), now, always)
}

// reasonsOf identifies the reasons of all conditions.
func reasonsOf(status *policy.Status) string {
	var said []string
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		said = append(said, string(condition.Type), string(condition.Status), condition.Reason)
	}
	return unique.Make(strings.Join(said, " ")).Value() // which many autoscalers have
}

// boundsChange says what the configuration, or the target's labels, changed of min and
// max since the last pass; empty where that is nothing, or not known.
func boundsChange(before *state.Bounds, now state.Bounds) string {
	if before == nil || *before == now {
		return ""
	}
	var changed []string
	if before.Min != now.Min {
		changed = append(changed, fmt.Sprintf("min from %d to %d", before.Min, now.Min))
	}
	if before.Max != now.Max {
		changed = append(changed, fmt.Sprintf("max from %d to %d", before.Max, now.Max))
	}
	return "the configuration changed " + strings.Join(changed, " and ")
}

// failureOf identifies why a pass failed; empty where it did not.
func failureOf(decision *policy.Decision, outcome policy.Outcome, failed string) string {
	if failed == "" {
		return ""
	}
	if decision.Case == policy.CaseUnreadable {
		return trouble.Cause(decision.Error)
	}
	said := []string{outcome.Error}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Error != "" {
			said = append(said, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Error)
		}
	}
	if cause := trouble.Cause(said...); cause != "" {
		return cause
	}
	return trouble.Cause(failed)
}

// hindranceOf identifies all that is wrong with an autoscaler: why its pass failed,
// what holds its target, what else the platform says, and partial results. It is empty if
// there is no problem.
func hindranceOf(decision *policy.Decision, outcome policy.Outcome, failure string) string {
	var said []string
	for _, hold := range []*policy.Hold{decision.Hold, outcome.Hold} {
		if hold != nil {
			said = append(said, hold.Reason, hold.Message)
		}
	}
	for i := range decision.Notices {
		notice := &decision.Notices[i]
		said = append(said, string(notice.Condition), notice.Reason, notice.Message)
	}
	for i := range decision.Metrics {
		if metric := &decision.Metrics[i]; metric.Partial != "" && metric.Error == "" {
			said = append(said, string(metric.Type), metric.Name, metric.Task, metric.Object, metric.Partial)
		}
	}
	if cause := trouble.Cause(said...); cause != "" {
		return cause + failure
	}
	return failure
}

// sameReasons compares what makes a decision worth an entry in the history, besides
// what hinders it.
func sameReasons(a, b *policy.Status) bool {
	return slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
}
