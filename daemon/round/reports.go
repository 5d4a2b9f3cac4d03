package round

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// fields returns log fields that begin with the autoscaler and its target.
func (p *pass) fields(more ...zap.Field) []zap.Field {
	return append([]zap.Field{zap.String("autoscaler", p.autoscaler.Name), zap.Stringer("target", p.definition.Target)}, more...)
}

// notification returns a notification about the autoscaler at the time of the pass.
func (p *pass) notification(kind notify.Kind, from, to int32, why, message string) *notify.Event {
	target := p.definition.Target
	return &notify.Event{
		Kind: kind, Time: p.env.Clock.Scale().Wall(p.now()), Autoscaler: p.autoscaler.Name, Fleet: target.Fleet, Target: target.String(),
		From: from, To: to, Reason: why, Message: message,
	}
}

// logPass logs a pass. A pass without news is logged only at debug level.
func (p *pass) logPass(before *Result, news []zap.Field) {
	e, after, fields := p.env, p.after, p.fields
	decision, outcome := &after.Decision, after.Outcome
	counts := func(more ...zap.Field) []zap.Field {
		return append(fields(zap.Stringer("code", after.Reason), zap.Int32("current", decision.CurrentReplicas), zap.Int32("desired", decision.DesiredReplicas),
			zap.String("reason", decision.Message)), more...)
	}
	if foreign := decision.Foreign; foreign != nil {
		e.Log.Warn("count changed by external writer", fields(zap.Int32("from", foreign.From), zap.Int32("to", decision.CurrentReplicas))...)
	}
	switch {
	case outcome.Kind == policy.Written:
		e.Log.Info("rescaled", counts(zap.Int32("reached", outcome.Reached))...)
	case decision.Write && e.DryRun:
		e.Log.Info("would rescale", counts()...)
	default:
		if entry := e.Log.Check(zap.DebugLevel, "evaluated"); entry != nil {
			entry.Write(counts()...)
		}
	}
	switch {
	case news == nil:
	case errors.Is(after.cause, targets.ErrWriteTime):
		e.Log.Info("partially rescaled", append(news, zap.Stringer("code", after.Reason), zap.String("err", after.failed))...)
	case after.failed != "":
		e.Log.Warn("evaluation failed", append(news, zap.Stringer("code", after.Reason), zap.String("err", after.failed))...)
	default:
		e.Log.Info("evaluation recovered", news...)
	}
	if after.newlyHeld {
		e.Log.Info("not rescaled", counts(zap.String("held_by", string(decision.HeldBy)))...)
	}
	// A disabled autoscaler is logged when it becomes disabled, and again once after a restart.
	switch was, is := before.Record.Status.Disabled(), after.Record.Status.Disabled(); {
	case is && (!was || !before.Decided()):
		e.Log.Warn("autoscaling is disabled", fields(zap.String("reason", decision.Message))...)
	case was && !is:
		e.Log.Info("autoscaling is enabled again", fields()...)
	}
}

// errorKind returns upstream's kind for a pass's error: "spec" for an error in the autoscaler
// itself, and "internal" for any other error.
func (r *passResult) errorKind(fleetAnswers bool) metrics.ErrorKind {
	switch {
	case r.Err == "":
		return metrics.NoError
	case r.Decision.Case == policy.CaseUnreadable && fleetAnswers:
		return metrics.SpecError
	}
	return metrics.InternalError
}

// logPanic logs and counts a panic of a pass.
func (e *Env) logPanic(name string, err error, quarantinedUntil time.Time) {
	fields := []zap.Field{zap.String("autoscaler", name), zap.Stringer("code", reason.Panicked), zap.NamedError("err", err)}
	if caught, ok := errors.AsType[*guard.Panic](err); ok {
		fields = append(fields, zap.ByteString("stack", caught.Stack))
	}
	if !quarantinedUntil.IsZero() {
		fields = append(fields, zap.Time("quarantined_until", e.Clock.Scale().Wall(quarantinedUntil)))
	}
	e.Log.Error("pass panicked", fields...)
	e.Metrics.Panic(name)
}

// notifyPass notifies receivers of the result of a pass: a change, a change that was not written, a
// failure, or a recovery. recorded reports whether the pass added a history entry. news reports
// whether the pass is the first to fail or to succeed again.
func (p *pass) notifyPass(recorded, news bool) {
	e, after := p.env, p.after
	if !e.Receivers.Any() {
		return
	}
	decision := &after.Decision
	evaluation := api.Evaluation{Error: after.Err, Hold: after.Outcome.Hold, DryRun: e.DryRun}
	event := p.notification("", decision.CurrentReplicas, decision.DesiredReplicas, after.Reason.String(), "")
	switch {
	case after.Outcome.Kind == policy.Written:
		event.Kind, event.To, evaluation.Written = notify.Changed, after.Outcome.Reached, &after.Outcome.Reached
	case news && after.failed != "":
		event.Kind = notify.Failed
	case recorded && after.failed == "" && decision.DesiredReplicas != decision.CurrentReplicas:
		event.Kind = notify.Refused
	case !news:
		return
	}
	event.Message = explain.Sentence(clock.AsWallTime(e.Clock.Scale(), *decision), evaluation)
	if event.Kind != "" {
		e.Receivers.Notify(event)
	}
	if news && after.failed == "" {
		event.Kind = notify.Recovered
		e.Receivers.Notify(event)
	}
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

// instancesFailing returns the messages and a key of the notices which report that instances fail.
// Both can be empty.
func instancesFailing(kind string, decision *policy.Decision) (text, cause string) {
	var messages, types []string
	for _, notice := range decision.Notices {
		if reportsFailure(kind, notice.Condition) {
			messages, types = append(messages, notice.Message), append(types, string(notice.Condition))
		}
	}
	slices.Sort(types)
	return strings.Join(messages, "; "), strings.Join(types, " ")
}

// followInstanceFailures reports, in the log and to the receivers, when instances begin to fail and
// when they recover. A change to the set or number of failing instances is not reported.
func (p *pass) followInstanceFailures(before *Result) {
	decision, follower := &p.after.Decision, &p.autoscaler.following.instances
	if decision.Case == policy.CaseUnreadable || p.after.suspect {
		return
	}
	kind := p.definition.Kind
	text, cause := instancesFailing(kind, decision)
	if known := FailingConditions(kind, before.Record.Status.Conditions); !follower.HasState() && len(known) > 0 { // reported before a restart
		types := make([]string, len(known))
		for i, condition := range known {
			types[i] = string(condition.Type)
		}
		slices.Sort(types)
		*follower = problem.Restored(strings.Join(types, " "), known[0].Since)
	}
	news, flapped := follower.Observe(cause, decision.Time, false)
	if !news {
		return
	}
	fields := p.fields(follower.Fields(flapped, p.env.Clock.Scale().Wall)...)
	event := p.notification(notify.Failed, decision.CurrentReplicas, decision.DesiredReplicas, "", "instances fail: "+text)
	if cause == "" {
		event.Kind, event.Message = notify.Recovered, "instances running again"
		p.env.Log.Info("instances running again", fields...)
	} else {
		p.env.Log.Warn("instances fail", append(fields, zap.String("err", text))...)
	}
	p.env.Receivers.Notify(event)
}

// withinRange is the reason of the event at the end of a shortage. ScalingLimited uses the same
// reason.
const withinRange = "DesiredWithinRange"

// followShortage publishes the shortage of the pass. When a shortage begins or ends, it logs the
// change and returns an event. It notifies the receivers of a new shortage. It does not report a
// shortage that only changes or that recurs within minutes.
func (p *pass) followShortage(before *Result) []policy.Event {
	decision, follower := &p.after.Decision, &p.autoscaler.following.shortage
	shortage := decision.Shortage()
	p.after.Shortage = shortage
	growing := shortage != nil && decision.CurrentReplicas < shortage.Max // the maximum might be sufficient
	if decision.Case != policy.CaseMetrics || p.after.suspect || growing {
		return nil
	}
	cause := ""
	if shortage != nil {
		cause = shortage.Reason
	}
	if !before.Decided() && slices.ContainsFunc(before.Record.Status.Conditions, func(c policy.Condition) bool {
		return c.Type == policy.ScalingLimited && c.Status == policy.ConditionTrue && c.Reason == cause
	}) {
		*follower = problem.Restored(cause, decision.Time) // reported before the restart
	}
	news, flapped := follower.Observe(cause, decision.Time, false)
	if !news {
		return nil
	}
	fields := p.fields(follower.Fields(flapped, p.env.Clock.Scale().Wall)...)
	if shortage == nil {
		p.env.Log.Info("recommendation within the maximum again", fields...)
		return []policy.Event{{Kind: policy.NormalEvent, Reason: withinRange, Message: "the recommendation is within the maximum again"}}
	}
	p.env.Log.Info("recommendation above the maximum", append(fields, zap.Int32("recommended", shortage.Wanted), zap.Int32("max", shortage.Max), zap.String("reason", cause))...)
	p.env.Receivers.Notify(p.notification(notify.Refused, decision.CurrentReplicas, shortage.Wanted, cause, shortage.String()))
	return []policy.Event{{Kind: policy.WarningEvent, Reason: cause, Message: shortage.String()}}
}
