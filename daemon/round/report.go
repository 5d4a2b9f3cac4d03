package round

import (
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// report reports the published result: to the graph, the log, the metrics and the receivers.
func (p *pass) report(before *Result, news *passNews) {
	a, after := p.autoscaler, p.after
	p.addDataPoint(&after.Decision, func() simulate.Tick {
		return simulate.Record(p.inputs, &after.Decision, after.Outcome, p.env.DryRun, after.suspect)
	})
	p.reportChanges(news)
	p.logPass(before, news)
	if after.Outcome.Kind == policy.Written {
		a.metrics.Rescaled(after.Decision.CurrentReplicas, after.Outcome.Reached)
	}
	p.env.Metrics.Reason(after.Reason)
	a.metrics.Pass(&after.Decision, after.errorKind(!a.definition.Load().Fleet.Problem.Exists()), after.Duration)
	if p.env.Decided != nil {
		p.env.Decided(a.Name)
	}
	p.notifyPass(news)
}

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
func (p *pass) logPass(before *Result, news *passNews) {
	e, after, fields := p.env, p.after, p.fields
	decision, outcome := &after.Decision, after.Outcome
	counts := func(more ...zap.Field) []zap.Field { return p.countFields(after.Result, more...) }
	if foreign := decision.Foreign; foreign != nil {
		e.Log.Warn("count changed by external writer", fields(zap.Int32("from", foreign.From), zap.Int32("to", decision.CurrentReplicas))...)
	}
	switch {
	case outcome.Kind == policy.Written:
		e.Log.Info("rescaled", counts(zap.Int32("reached", outcome.Reached))...)
	case decision.Write && e.DryRun:
		e.Log.Info("would rescale", counts()...)
	default:
		p.logEvaluated(after.Result)
	}
	if news.failing.News {
		p.logFailure(p.changeFields(&p.autoscaler.following.failing, news.failing))
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

// logEvaluated logs a pass without news.
func (p *pass) logEvaluated(result *Result) {
	if entry := p.env.Log.Check(zap.DebugLevel, "evaluated"); entry != nil {
		entry.Write(p.countFields(result)...)
	}
}

// countFields returns log fields with the counts of a decision and the reason for them.
func (p *pass) countFields(result *Result, more ...zap.Field) []zap.Field {
	decision := &result.Decision
	return append(p.fields(zap.Stringer("code", result.Reason), zap.Int32("current", decision.CurrentReplicas), zap.Int32("desired", decision.DesiredReplicas),
		zap.String("reason", decision.Message)), more...)
}

// logFailure logs that passes begin to fail, fail for a different cause, or succeed again.
func (p *pass) logFailure(fields []zap.Field) {
	after, log := p.after, p.env.Log
	details := append(slices.Clone(fields), zap.Stringer("code", after.Reason), zap.String("err", after.failed))
	switch {
	case errors.Is(after.cause, targets.ErrWriteTime):
		log.Info("partially rescaled", details...)
	case after.failed != "":
		log.Warn("evaluation failed", details...)
	default:
		log.Info("evaluation recovered", fields...)
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

// changeFields returns log fields of a change to a problem.
func (p *pass) changeFields(of *problem.Deduper, change problem.Change) []zap.Field {
	return p.fields(of.Fields(change.Flapped, p.env.Clock.Scale().Wall)...)
}

// reportChanges reports the changes since the earlier passes, except for failures of passes, which
// logPass and notifyPass report.
func (p *pass) reportChanges(news *passNews) {
	log, decision := p.env.Log, &p.after.Decision
	if news.bounds != "" {
		log.Info("bounds changed", p.fields(zap.Int32("min", decision.MinReplicas), zap.Int32("max", decision.MaxReplicas), zap.String("change", news.bounds))...)
	}
	if news.mode != "" {
		log.Info("mode changed", p.fields(zap.String("change", news.mode))...)
	}
	if news.instances.News {
		p.reportInstances(p.changeFields(&p.autoscaler.following.instances, news.instances))
	}
	if news.shortage.News {
		p.reportShortage(p.changeFields(&p.autoscaler.following.shortage, news.shortage))
	}
	if news.unmeasured {
		log.Info("no samples yet", p.fields(zap.String("err", p.after.failed))...)
	}
}

// reportInstances reports that instances begin to fail, or that they run again.
func (p *pass) reportInstances(fields []zap.Field) {
	decision := &p.after.Decision
	text, cause := failingInstances(p.definition.Kind, decision)
	event := p.notification(notify.Failed, decision.CurrentReplicas, decision.DesiredReplicas, "", "instances fail: "+text)
	if cause == "" {
		event.Kind, event.Message = notify.Recovered, "instances running again"
		p.env.Log.Info("instances running again", fields...)
	} else {
		p.env.Log.Warn("instances fail", append(fields, zap.String("err", text))...)
	}
	p.env.Receivers.Notify(event)
}

// reportShortage reports the begin or the end of a shortage. Receivers get only its begin.
func (p *pass) reportShortage(fields []zap.Field) {
	shortage := p.after.Shortage
	if shortage == nil {
		p.env.Log.Info("recommendation within the maximum again", fields...)
		return
	}
	p.env.Log.Info("recommendation above the maximum",
		append(fields, zap.Int32("recommended", shortage.Wanted), zap.Int32("max", shortage.Max), zap.String("reason", shortage.Reason))...)
	p.env.Receivers.Notify(p.notification(notify.Refused, p.after.Decision.CurrentReplicas, shortage.Wanted, shortage.Reason, shortage.String()))
}

// notifyPass notifies receivers of the result of a pass: a change, a change that was not written, a
// failure, or a recovery.
func (p *pass) notifyPass(news *passNews) {
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
	case news.failing.News && after.failed != "":
		event.Kind = notify.Failed
	case news.history.News && after.failed == "" && decision.DesiredReplicas != decision.CurrentReplicas:
		event.Kind = notify.Refused
	case !news.failing.News:
		return
	}
	event.Message = explain.Sentence(clock.AsWallTime(e.Clock.Scale(), *decision), evaluation)
	if event.Kind != "" {
		e.Receivers.Notify(event)
	}
	if news.failing.News && after.failed == "" {
		event.Kind = notify.Recovered
		e.Receivers.Notify(event)
	}
}
