package daemon

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// The calls into a fleet, as the metrics name them.
const (
	callSnapshot    = "snapshot"
	callSamples     = "samples"
	callSetReplicas = "set_replicas"
	callDiscover    = "discover"
)

// reportPass logs and counts a pass. A change of the count is one line, whoever
// made it, and so is news of a failure; quiet passes are for debugging. The next pass
// may be under way already.
func (d *Daemon) reportPass(a *autoscaler, def *definition, after *publication, news []zap.Field) {
	decision, outcome := &after.decision, after.outcome
	fields := func() []zap.Field {
		return []zap.Field{
			zap.String("autoscaler", a.name), zap.Stringer("target", def.Target),
			zap.Int32("current", decision.CurrentReplicas), zap.Int32("desired", decision.DesiredReplicas),
			zap.String("reason", decision.Message),
		}
	}
	if foreign := decision.Foreign; foreign != nil {
		d.log.Warn("somebody else changed the count", zap.String("autoscaler", a.name), zap.Stringer("target", def.Target),
			zap.Int32("from", foreign.From), zap.Int32("to", decision.CurrentReplicas))
	}
	switch {
	case outcome.Kind == policy.Written:
		a.metrics.Rescaled(decision.CurrentReplicas, outcome.Reached)
		d.log.Info("rescaled", append(fields(), zap.Int32("reached", outcome.Reached))...)
	case decision.Write && d.options.DryRun:
		d.log.Info("would rescale", fields()...)
	default:
		if entry := d.log.Check(zap.DebugLevel, "evaluated"); entry != nil {
			entry.Write(fields()...)
		}
	}
	switch {
	case news == nil:
	case after.failed != "":
		d.log.Warn("evaluation failed", append(news, zap.String("err", after.failed))...)
	default:
		d.log.Info("evaluation works again", news...)
	}
	a.countPass(after)
	if d.options.Decided != nil {
		d.options.Decided(a.name)
	}
}

// failureNews follows why passes fail, and returns what a line of the log has
// besides the error when they fail, fail for another cause, or work again; nil when
// that is no news. A fleet or a source that cannot be read has its own line, which is
// not repeated for each autoscaler. The pass under way owns what this changes.
func (d *Daemon) failureNews(a *autoscaler, def *definition, after *publication) []zap.Field {
	if after.blind {
		return nil
	}
	cause := failureOf(&after.decision, after.outcome, after.failed)
	news, flapped := a.failing.Follow(cause, after.tick, false)
	if a.panicked && cause == "" { // which has its own line
		news, a.panicked = true, false
	}
	if !news {
		return nil
	}
	return append([]zap.Field{zap.String("autoscaler", a.name), zap.Stringer("target", def.Target)}, a.failing.Fields(flapped, d.clock.Scale().Wall)...)
}

// reportPanic logs and counts a panic of a pass.
func (d *Daemon) reportPanic(a *autoscaler, err error, quarantinedUntil time.Time) {
	fields := []zap.Field{zap.String("autoscaler", a.name), zap.NamedError("err", err)}
	var caught *trouble.Panic
	if errors.As(err, &caught) {
		fields = append(fields, zap.ByteString("stack", caught.Stack))
	}
	if !quarantinedUntil.IsZero() {
		fields = append(fields, zap.Time("quarantined_until", quarantinedUntil))
	}
	d.log.Error("a pass panicked", fields...)
	d.metrics.Panic(a.name)
}

// reportFleet keeps whether a fleet can be read, and logs when that changes or has
// another cause: one line for all the autoscalers that the read was for.
func (d *Daemon) reportFleet(h *fleetHandle, autoscalers int, err error) {
	if d.runContext.Err() != nil {
		return // the stop cut the read off
	}
	news, fields := h.problem.Set(err)
	fields = append([]zap.Field{zap.String("fleet", h.name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		d.log.Warn("fleet cannot be read", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("fleet can be read again", fields...)
	}
	if news {
		trouble.LogPanic(d.log, "fleet", h.name, err)
	}
}

// reportSamples logs that the samples of a fleet cannot be read, for another cause,
// or again.
func (d *Daemon) reportSamples(h *fleetHandle, autoscalers int, err error) {
	if d.runContext.Err() != nil {
		return // the stop cut the read off
	}
	news, fields := h.unsampled.Set(err)
	fields = append([]zap.Field{zap.String("fleet", h.name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		d.log.Warn("samples of the fleet cannot be read", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("samples of the fleet can be read again", fields...)
	}
}

// reportSource keeps whether a source answers, and logs when that changes or has
// another cause: one line for all the autoscalers that ask it.
func (d *Daemon) reportSource(h *sourceHandle, autoscalers int, err error) {
	if d.runContext.Err() != nil {
		return // the stop cut the queries off
	}
	news, fields := h.problem.Set(err)
	fields = append([]zap.Field{zap.String("source", h.name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		d.log.Warn("source does not answer", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("source answers again", fields...)
	}
	if news {
		trouble.LogPanic(d.log, "source", h.name, err)
	}
}

// keptWarnings bounds how many warnings of a source are told apart.
const keptWarnings = 1000

// reportWarnings logs what a source says beside an answer, once for each query.
func (d *Daemon) reportWarnings(h *sourceHandle, query string, warnings []string) {
	if len(warnings) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, warning := range warnings {
		key := query + "\xff" + warning
		if h.warned[key] || len(h.warned) >= keptWarnings {
			continue
		}
		if h.warned == nil {
			h.warned = map[string]bool{}
		}
		h.warned[key] = true
		d.log.Warn("source warns", zap.String("source", h.name), zap.String("query", query), zap.String("warning", warning))
	}
}

// reportState counts a write of the state, keeps whether it can be written, and
// logs when that changes.
func (d *Daemon) reportState(took time.Duration, records int, err error) {
	d.metrics.StateWrite(took, records, err)
	news, fields := d.unwritten.Set(err)
	switch {
	case news && err != nil:
		d.log.Error("state cannot be written; scaling goes on", append(fields, zap.NamedError("err", err))...)
	case news:
		d.log.Info("state can be written again", fields...)
	}
}
