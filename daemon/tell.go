package daemon

import (
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// tellPass tells the receivers of notifications what became of a pass: a change, one that
// is wanted and not written, a failure and its end. Recorded says that it has an entry of
// the history, news that a failure or its end is.
func (e *environment) tellPass(name string, target targets.Ref, after *result, recorded, news bool) {
	if !e.receivers.Any() {
		return
	}
	decision, scale := &after.Decision, e.clock.Scale()
	became := api.Evaluation{Error: after.err, Hold: after.Outcome.Hold, DryRun: e.dryRun}
	event := notify.Event{
		Time: scale.Wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: decision.DesiredReplicas, Reason: after.reason.String(),
	}
	switch {
	case after.Outcome.Kind == policy.Written:
		event.Kind, event.To, became.Written = notify.Changed, after.Outcome.Reached, &after.Outcome.Reached
	case news && after.failed != "":
		event.Kind = notify.Failed
	case recorded && after.failed == "" && decision.DesiredReplicas != decision.CurrentReplicas:
		event.Kind = notify.Refused
	case !news:
		return
	}
	event.Message = explain.Sentence(clock.Shown(scale, *decision), became)
	if event.Kind != "" {
		e.receivers.Tell(&event)
	}
	if news && after.failed == "" {
		event.Kind = notify.Recovered
		e.receivers.Tell(&event)
	}
}

// tellOutage tells the receivers that a fleet or a source fails for another cause, or no
// longer does.
func (e *environment) tellOutage(event notify.Event, what string, err error) {
	event.Time, event.Kind, event.Message = e.clock.Scale().Wall(e.clock.Now()), notify.Recovered, what+" again"
	if err != nil {
		event.Kind, event.Message = notify.Failed, err.Error()
	}
	e.receivers.Tell(&event)
}

// shownReceivers returns what became of notifications, for the metrics.
func (e *environment) shownReceivers() map[string]metrics.Receiver {
	shown := map[string]metrics.Receiver{}
	for name, counts := range e.receivers.Counts() {
		shown[name] = metrics.Receiver(counts)
	}
	return shown
}
