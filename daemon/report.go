package daemon

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// reportPass logs a pass. A change of the count is one line, whoever made it, and so
// is news of a failure; quiet passes are for debugging. The next pass may be under way
// already.
func (e *environment) reportPass(name string, target targets.Ref, before *publication, after *result, news []zap.Field) {
	decision, outcome := &after.Decision, after.Outcome
	fields := func(more ...zap.Field) []zap.Field {
		return append([]zap.Field{zap.String("autoscaler", name), zap.Stringer("target", target)}, more...)
	}
	counts := func(more ...zap.Field) []zap.Field {
		return append(fields(zap.Stringer("code", after.reason), zap.Int32("current", decision.CurrentReplicas), zap.Int32("desired", decision.DesiredReplicas),
			zap.String("reason", decision.Message)), more...)
	}
	if foreign := decision.Foreign; foreign != nil {
		e.log.Warn("somebody else changed the count", fields(zap.Int32("from", foreign.From), zap.Int32("to", decision.CurrentReplicas))...)
	}
	switch {
	case outcome.Kind == policy.Written:
		e.log.Info("rescaled", counts(zap.Int32("reached", outcome.Reached))...)
	case decision.Write && e.dryRun:
		e.log.Info("would rescale", counts()...)
	default:
		if entry := e.log.Check(zap.DebugLevel, "evaluated"); entry != nil {
			entry.Write(counts()...)
		}
	}
	switch {
	case news == nil:
	case errors.Is(after.cause, targets.ErrWriteTime):
		e.log.Info("rescaled in part, and the next pass goes on", append(news, zap.Stringer("code", after.reason), zap.String("err", after.failed))...)
	case after.failed != "":
		e.log.Warn("evaluation failed", append(news, zap.Stringer("code", after.reason), zap.String("err", after.failed))...)
	default:
		e.log.Info("evaluation works again", news...)
	}
	if after.newlyHeld {
		e.log.Info("not rescaled", counts(zap.String("held_by", string(decision.HeldBy)))...)
	}
	// That an autoscaler is off is logged once it begins, and once in each run.
	switch was, is := before.record.Status.Disabled(), after.record.Status.Disabled(); {
	case is && (!was || !before.decided()):
		e.log.Warn("autoscaling is off", fields(zap.String("reason", decision.Message))...)
	case was && !is:
		e.log.Info("autoscaling is on again", fields()...)
	}
}

// errorKind says whose fault a pass's error was: upstream calls what is wrong with the
// autoscaler itself "spec" and everything else "internal".
func (r *result) errorKind(fleetAnswers bool) metrics.ErrorKind {
	switch {
	case r.err == "":
		return metrics.NoError
	case r.Decision.Case == policy.CaseUnreadable && fleetAnswers: // and does not know the target
		return metrics.SpecError
	}
	return metrics.InternalError
}

// reportPanic logs and counts a panic of a pass.
func (e *environment) reportPanic(name string, err error, quarantinedUntil time.Time) {
	fields := []zap.Field{zap.String("autoscaler", name), zap.Stringer("code", reason.Panicked), zap.NamedError("err", err)}
	if caught, ok := errors.AsType[*trouble.Panic](err); ok {
		fields = append(fields, zap.ByteString("stack", caught.Stack))
	}
	if !quarantinedUntil.IsZero() {
		fields = append(fields, zap.Time("quarantined_until", e.clock.Scale().Wall(quarantinedUntil)))
	}
	e.log.Error("a pass panicked", fields...)
	e.metrics.Panic(name)
}
