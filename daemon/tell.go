package daemon

import (
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// tellPass tells the receivers of notifications what became of a pass: a change, one that
// is wanted and not written, a failure and its end. Recorded says that it has an entry of
// the history, news that a failure or its end is.
func (e *environment) tellPass(name string, target targets.Ref, after *result, recorded, news bool) {
	if !e.receivers.Any() {
		return
	}
	decision := &after.Decision
	event := notify.Event{
		Time: e.clock.Scale().Wall(decision.Time), Autoscaler: name, Fleet: target.Fleet, Target: target.String(),
		From: decision.CurrentReplicas, To: decision.DesiredReplicas, Reason: after.reason.String(), Message: decision.Message,
	}
	switch {
	case after.Outcome.Kind == policy.Written:
		event.Kind, event.To = notify.Changed, after.Outcome.Reached
	case news && after.failed != "":
		event.Kind, event.Message = notify.Failed, after.failed
	case recorded && after.failed == "" && decision.DesiredReplicas != decision.CurrentReplicas:
		event.Kind = notify.Refused
		if hold := after.Outcome.Hold; hold != nil {
			event.Message = "no change: the target is held: " + hold.Message
		}
	}
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
