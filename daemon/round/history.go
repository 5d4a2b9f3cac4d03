package round

import (
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
)

// historyEntries returns the history entry of the pass, or nil if the pass gets no entry. err is
// the error of the settlement.
func (p *pass) historyEntries(news *passNews, err string) []state.Entry {
	if !news.history.News {
		return nil
	}
	after := p.after
	entry := state.Entry{
		Autoscaler: p.autoscaler.Name, Time: after.Decision.Time, Decision: after.Decision, Events: news.events, Victims: after.Victims,
		Error: err, Hold: after.Outcome.Hold, DryRun: p.env.DryRun, Since: after.Since, Reason: after.Reason.String(),
		Engine: policy.Engine, Inputs: p.inputs,
	}
	if after.Outcome.Kind == policy.Written {
		entry.Written = &after.Outcome.Reached
	}
	if flapped := news.history.Flapped; flapped.Changes > 0 {
		entry.Unreported = &state.Unreported{Changes: flapped.Changes, From: flapped.From}
	}
	return []state.Entry{entry}
}

// followHistory reports whether the pass gets a history entry. notable is set if it gets one in any
// case. Otherwise, it gets one if the reason of a condition or the autoscaler's problem changed.
func (f *following) followHistory(before *Result, after *passResult, notable bool) problem.Change {
	decision, known := &after.Decision, f.obstacle.Cause()
	obstacle := obstacleOf(decision, after.Outcome, failureOf(decision, after.Outcome, after.failed))
	change := f.obstacle.Update(obstacle, decision.Time, notable)
	reasons := followReasons(&f.reasons, &before.Record.Status, &after.Record.Status, decision.Time, notable || change.News)
	if change.Flapped.Changes == 0 {
		change.Flapped = reasons.Flapped
	}
	// A recurring problem also changes the reasons. It is not reported again.
	change.News = notable || change.News || reasons.News && obstacle == known
	return change
}

// current returns the start of the current problem, or zero without a problem, and the changes that
// the history does not contain.
func (f *following) current() (since time.Time, unreported problem.Flapping) {
	unreported = f.obstacle.Unreported()
	if f.obstacle.Cause() != "" {
		return f.obstacle.Since(), unreported
	}
	if unreported.Changes == 0 {
		unreported = f.reasons.Unreported()
	}
	return time.Time{}, unreported
}

// followReasons reports whether the reasons of the conditions changed. If the reasons alternate,
// for example because a metric is near its target value, it counts the changes instead of reporting
// them. If always is set, the pass gets a history entry in any case.
func followReasons(f *problem.Deduper, before, after *policy.Status, now time.Time, always bool) problem.Change {
	same := sameReasons(before, after)
	switch {
	case f.HasState() && same:
		change := f.Update(f.Cause(), now, always)
		if f.IsSettled(now) {
			*f = problem.Deduper{}
		}
		return change
	case same:
		return problem.Change{}
	case len(before.Conditions) == 0:
		return problem.Change{News: true}
	case !f.HasState():
		*f = problem.Restored(reasonsOf(before), time.Time{})
	}
	return f.Update(reasonsOf(after), now, always)
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

func sameReasons(a, b *policy.Status) bool {
	return slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
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
