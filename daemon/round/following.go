package round

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/policy"
)

// following compares each pass of an autoscaler with its earlier passes. The active pass owns it.
type following struct {
	// The history contains the changes to obstacle, and to reasons, the reasons of the conditions.
	obstacle, reasons problem.Deduper
	// The log contains the changes to these problems.
	failing, instances, shortage problem.Deduper
	// unmeasured is the time of the first pass, as long as all passes failed only because the fleet
	// has no samples yet; otherwise zero.
	unmeasured time.Time
	// panicked is set by a panic and reset by the next successful pass. panics counts consecutive
	// panics.
	panicked bool
	panics   int
}

// passNews contains the differences between a pass and the earlier passes that must be reported.
type passNews struct {
	// bounds and mode describe a change to min or max, and a change of the mode by a schedule. They
	// are empty without a change.
	bounds, mode string
	// failing is a change between success and failure of the passes.
	failing, instances, shortage problem.Change
	// unmeasured reports whether the pass is the first one and its fleet has no samples yet.
	unmeasured bool
	// history reports whether the pass gets a history entry.
	history problem.Change
	// events belong to the history entry.
	events []policy.Event
}

// follow compares the pass with the earlier passes, and adds the events and the current problem to
// its result. settled contains the events of the settlement.
func (p *pass) follow(before *Result, settled []policy.Event) passNews {
	f, after := &p.autoscaler.following, p.after
	f.panics = 0
	news := passNews{
		bounds: p.boundsChange(before), mode: p.modeChange(before),
		instances: f.followInstances(p.definition.Kind, before, after), shortage: f.followShortage(before, after),
	}
	news.failing, news.unmeasured = f.followFailure(before, after, p.env.Until != nil && p.env.Unwritten.Exists())
	news.events = slices.Concat(after.extraEvents, news.changeEvents(after.Shortage))
	notable := len(news.events) > 0 || after.newlyHeld || after.Decision.Foreign != nil || after.Decision.Command != nil ||
		after.Outcome.Kind == policy.Written || slices.ContainsFunc(settled, policy.Event.IsPause)
	news.events = append(news.events, settled...)
	news.history = f.followHistory(before, after, notable)
	after.Since, after.Unreported = f.current()
	if now := records.ObstacleOf(f.obstacle); !records.SameObstacle(after.Record.Obstacle, now) {
		after.Record.Obstacle = now
	}
	after.Events = addEvents(before.Events, news.events, p.now())
	return news
}

// changeEvents returns the events of changes to min, max, the mode and the shortage.
func (n *passNews) changeEvents(shortage *policy.Shortage) (events []policy.Event) {
	if n.bounds != "" {
		events = append(events, policy.Event{Kind: policy.NormalEvent, Reason: api.BoundsChanged, Message: n.bounds})
	}
	if n.mode != "" {
		events = append(events, policy.Event{Kind: policy.NormalEvent, Reason: api.ModeChanged, Message: n.mode})
	}
	switch {
	case !n.shortage.News:
	case shortage == nil:
		events = append(events, policy.Event{Kind: policy.NormalEvent, Reason: withinRange, Message: "the recommendation is within the maximum again"})
	default:
		events = append(events, policy.Event{Kind: policy.WarningEvent, Reason: shortage.Reason, Message: shortage.String()})
	}
	return events
}

// followFailure returns a change between success and failure of the passes, or to another cause.
// first reports whether the first pass of this run has no samples. unwritten reports whether a
// change of the count would fail because the state cannot be written.
func (f *following) followFailure(before *Result, after *passResult, unwritten bool) (failing problem.Change, first bool) {
	decision, now := &after.Decision, after.Record.Through
	if after.outage {
		if !before.Decided() || !f.unmeasured.IsZero() {
			f.unmeasured = now // the fleet took no samples during the outage
		}
		return failing, false
	}
	unmeasured := early(decision) && after.Outcome.Error == ""
	if first = unmeasured && !before.Decided(); first {
		f.unmeasured = now
	}
	if unmeasured && now.Sub(f.unmeasured) < measuredWithin {
		return failing, first
	}
	f.unmeasured = time.Time{}
	cause := failureOf(decision, after.Outcome, after.failed)
	if cause == "" && unwritten { // not a recovery
		return failing, false
	}
	failing = f.failing.Update(cause, now, false)
	if f.panicked && cause == "" { // panics are logged separately
		failing.News, f.panicked = true, false
	}
	return failing, false
}

// measuredWithin is the maximum time until running instances have their first samples. A fleet
// needs two readings, and resource_interval is 15 s by default.
const measuredWithin = time.Minute

// early reports whether a pass failed only because its fleet has no samples yet.
func early(decision *policy.Decision) bool {
	failed := false
	for i := range decision.Metrics {
		result := &decision.Metrics[i]
		if result.Error != "" && !observe.Early(result) {
			return false
		}
		failed = failed || result.Error != ""
	}
	return failed
}

// followInstances returns a change when instances begin to fail and when they recover. A change to
// the number of failing instances is not news.
func (f *following) followInstances(kind string, before *Result, after *passResult) problem.Change {
	decision := &after.Decision
	if decision.Case == policy.CaseUnreadable || after.suspect {
		return problem.Change{}
	}
	if known := FailingConditions(kind, before.Record.Status.Conditions); !f.instances.HasState() && len(known) > 0 { // reported before a restart
		types := make([]string, len(known))
		for i, condition := range known {
			types[i] = string(condition.Type)
		}
		slices.Sort(types)
		f.instances = problem.Restored(strings.Join(types, " "), known[0].Since)
	}
	_, cause := failingInstances(kind, decision)
	return f.instances.Update(cause, decision.Time, false)
}

// failingInstances returns the messages and a key of the notices which report that instances fail.
// Both can be empty.
func failingInstances(kind string, decision *policy.Decision) (text, cause string) {
	var messages, types []string
	for _, notice := range decision.Notices {
		if reportsFailure(kind, notice.Condition) {
			messages, types = append(messages, notice.Message), append(types, string(notice.Condition))
		}
	}
	slices.Sort(types)
	return strings.Join(messages, "; "), strings.Join(types, " ")
}

// reportsFailure reports whether a condition means that instances cannot start, end unexpectedly,
// or do not become ready.
func reportsFailure(kind string, condition policy.ConditionType) bool {
	return condition == InstancesUnready || slices.Contains(kinds.Fleets[kind].Failing, condition)
}

// FailingConditions returns the active conditions which report that instances cannot start, end
// unexpectedly, or do not become ready.
func FailingConditions(kind string, conditions []policy.Condition) []policy.Condition {
	var failing []policy.Condition
	for _, condition := range conditions {
		if condition.Status == policy.ConditionTrue && reportsFailure(kind, condition.Type) {
			failing = append(failing, condition)
		}
	}
	return failing
}

// withinRange is the reason of the event at the end of a shortage. ScalingLimited uses the same
// reason.
const withinRange = "DesiredWithinRange"

// followShortage returns a change when a shortage begins or ends. A shortage that only changes or
// that recurs within minutes is not news.
func (f *following) followShortage(before *Result, after *passResult) problem.Change {
	decision, shortage, cause := &after.Decision, after.Shortage, ""
	growing := shortage != nil && decision.CurrentReplicas < shortage.Max // the maximum might be sufficient
	if decision.Case != policy.CaseMetrics || after.suspect || growing {
		return problem.Change{}
	}
	if shortage != nil {
		cause = shortage.Reason
	}
	if !before.Decided() && slices.ContainsFunc(before.Record.Status.Conditions, func(c policy.Condition) bool {
		return c.Type == policy.ScalingLimited && c.Status == policy.ConditionTrue && c.Reason == cause
	}) {
		f.shortage = problem.Restored(cause, decision.Time) // reported before the restart
	}
	return f.shortage.Update(cause, decision.Time, false)
}
