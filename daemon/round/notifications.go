package round

import (
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// notifyPass notifies receivers of the result of a pass: a change, a change that was not written, a
// failure, or a recovery. Recorded reports whether the pass has a history entry, news whether it
// is the first that fails or succeeds.
func (e *Env) notifyPass(name string, target targets.Ref, after *passResult, recorded, news bool) {
	if !e.Receivers.Any() {
		return
	}
	decision, scale := &after.Decision, e.Clock.Scale()
	evaluation := api.Evaluation{Error: after.Err, Hold: after.Outcome.Hold, DryRun: e.DryRun}
	event := notify.Event{
		Time: scale.Wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: decision.DesiredReplicas, Reason: after.Reason.String(),
	}
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
	event.Message = explain.Sentence(clock.Shown(scale, *decision), evaluation)
	if event.Kind != "" {
		e.Receivers.Tell(&event)
	}
	if news && after.failed == "" {
		event.Kind = notify.Recovered
		e.Receivers.Tell(&event)
	}
}
