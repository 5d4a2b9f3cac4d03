package round

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
)

// panicked publishes the panic of the pass. It drops the result of the pass, except for its extra
// events. After panicsAllowed consecutive panics, it quarantines the autoscaler.
func (p *pass) panicked(err error) {
	a := p.autoscaler
	a.following.panics++
	news := !a.following.panicked
	after := *a.Last()
	after.Unevaluated, after.Err = err.Error(), err.Error()
	after.Quarantine = time.Time{}
	a.following.panicked, after.Reason = true, reason.Panicked
	if p.after != nil {
		after.Events = addEvents(after.Events, p.after.extraEvents, p.now())
	}
	if a.following.panics >= panicsAllowed {
		a.following.panics = 0
		after.Quarantine = p.now().Add(quarantine)
		after.Unevaluated, news = "quarantined after "+err.Error(), true
	}
	a.publishPanic(p.env.Recorder, &after)
	if news {
		p.reportPanic(&after)
	}
	p.env.Metrics.Reason(reason.Panicked)
	p.env.logPanic(a.Name, err, after.Quarantine)
}

// reportPanic adds a panic, or the quarantine after several panics, to the history and sends a
// notification.
func (p *pass) reportPanic(after *Result) {
	a, current := p.autoscaler, after.Record.Status.CurrentReplicas
	decision := policy.Decision{
		Time: p.now(), CurrentReplicas: current, DesiredReplicas: current,
		Message: "the pass panicked, which is a bug in hpad", Error: after.Unevaluated,
	}
	p.env.Recorder.Record(a.Name, nil, state.Entry{
		Autoscaler: a.Name, Time: p.now(), Reason: reason.Panicked.String(), Error: after.Unevaluated, DryRun: p.env.DryRun, Decision: decision,
	})
	p.env.Receivers.Notify(p.notification(notify.Failed, current, current, reason.Panicked.String(), explain.Sentence(decision, api.Evaluation{})))
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
