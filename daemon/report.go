package daemon

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
)

// The calls into a fleet, as the metrics name them.
const (
	callSnapshot    = "snapshot"
	callSamples     = "samples"
	callSetReplicas = "set_replicas"
	callDiscover    = "discover"
)

// reportPass logs and counts a pass. A change of the count is one line, and so
// is a failure that begins or ends; quiet passes are for debugging.
func (d *Daemon) reportPass(a *autoscaler, def *definition, before, after *publication, outcome policy.Outcome) {
	decision := &after.decision
	fields := func() []zap.Field {
		return []zap.Field{
			zap.String("autoscaler", a.name), zap.Stringer("target", def.Target),
			zap.Int32("current", decision.CurrentReplicas), zap.Int32("desired", decision.DesiredReplicas),
			zap.String("reason", decision.Message),
		}
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
	case after.failed != "" && before.failed == "":
		d.log.Warn("evaluation failed", zap.String("autoscaler", a.name), zap.Stringer("target", def.Target), zap.String("err", after.failed))
	case after.failed == "" && before.failed != "":
		d.log.Info("evaluation works again", zap.String("autoscaler", a.name), zap.Stringer("target", def.Target))
	}
	a.countPass(after)
	if d.options.Decided != nil {
		d.options.Decided(a.name)
	}
}

// reportPanic logs and counts a panic of a pass.
func (d *Daemon) reportPanic(a *autoscaler, err error, quarantinedUntil time.Time) {
	fields := []zap.Field{zap.String("autoscaler", a.name), zap.NamedError("err", err)}
	var caught *panicError
	if errors.As(err, &caught) {
		fields = append(fields, zap.ByteString("stack", caught.stack))
	}
	if !quarantinedUntil.IsZero() {
		fields = append(fields, zap.Time("quarantined_until", quarantinedUntil))
	}
	d.log.Error("a pass panicked", fields...)
	d.metrics.Panic(a.name)
}

// reportFleet keeps whether a fleet can be read, and logs when that changes.
func (d *Daemon) reportFleet(h *fleetHandle, err error) {
	if d.runContext.Err() != nil {
		return // the stop cut the read off
	}
	news := h.problem.set(err)
	switch {
	case news && err != nil:
		d.log.Warn("fleet cannot be read", zap.String("fleet", h.name), zap.NamedError("err", err))
	case news:
		d.log.Info("fleet can be read again", zap.String("fleet", h.name))
	}
	if news {
		d.logPanic("fleet", h.name, err)
	}
}

// reportSource keeps whether a source answers, and logs when that changes.
func (d *Daemon) reportSource(h *sourceHandle, err error) {
	if d.runContext.Err() != nil {
		return // the stop cut the queries off
	}
	news := h.problem.set(err)
	switch {
	case news && err != nil:
		d.log.Warn("source does not answer", zap.String("source", h.name), zap.NamedError("err", err))
	case news:
		d.log.Info("source answers again", zap.String("source", h.name))
	}
	if news {
		d.logPanic("source", h.name, err)
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
		key := query + keySeparator + warning
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
	news := d.unwritten.set(err)
	switch {
	case news && err != nil:
		d.log.Error("state cannot be written; scaling goes on", zap.NamedError("err", err))
	case news:
		d.log.Info("state can be written again")
	}
}

func (d *Daemon) logPanic(what, name string, err error) {
	var caught *panicError
	if errors.As(err, &caught) {
		d.log.Error("panic in a "+what, zap.String(what, name), zap.NamedError("err", err), zap.ByteString("stack", caught.stack))
	}
}
