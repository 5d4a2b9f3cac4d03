package policy

import (
	"cmp"
	"slices"
	"time"
)

// eventRules are what the upkeep of scale events and of ScaledToZero needs of
// settings and spec (R72, R73).
type eventRules struct {
	// behavior has the periods that scale events are kept for; without it none
	// are kept.
	behavior *Behavior
	// scaleToZero is the switch, mayBeZero reports whether the spec can go to zero.
	scaleToZero, mayBeZero bool
}

func eventRulesFor(settings *Settings, spec *Spec) eventRules {
	return eventRules{
		behavior:    spec.Behavior,
		scaleToZero: settings.ScaleToZero,
		mayBeZero:   minReplicasOf(spec) == 0 && hasWholeMetric(spec),
	}
}

// longestPeriod is the longest period among the policies of a direction (R73).
func longestPeriod(rules *ScalingRules) (longest time.Duration) {
	if rules == nil {
		return 0
	}
	for i := range rules.Policies {
		longest = max(longest, seconds(rules.Policies[i].PeriodSeconds))
	}
	return longest
}

// Settle ends a pass: what the decision and the outcome of its write leave
// behind (R71 to R75, R25.8). The decision is not modified; the result may
// share with it what did not change.
func Settle(decision Decision, outcome Outcome, now time.Time) Settlement {
	s := Settlement{Memory: decision.Memory, Status: decision.Status, Events: decision.Events, Error: decision.Error}
	if decision.Case != CaseUnreadable && decision.Case != CaseMetricsFailed {
		s.settleWrite(&decision, outcome, now)
	}
	s.StatusChanged = !decision.settling.previous.Same(s.Status)
	return s
}

// Explained returns the decision without what only [Settle] needs of it: the
// part that explains it, for whoever keeps it.
func (d Decision) Explained() Decision {
	d.Memory, d.Status, d.Events, d.settling = Memory{}, Status{}, nil, settling{}
	return d
}

// settleWrite applies what became of the write.
func (s *Settlement) settleWrite(decision *Decision, outcome Outcome, now time.Time) {
	switch outcome.Kind {
	case NotWritten:
	case Written:
		message := decision.Message
		if outcome.Reached != decision.DesiredReplicas {
			message += "; only " + itoa(outcome.Reached) + " could be reached"
		}
		change := rescale{
			from: decision.CurrentReplicas, to: outcome.Reached, at: now,
			message: message, rules: decision.settling.rules, commanded: decision.Reason == Commanded,
		}
		s.rescaled(change, now)
		s.fail(outcome.Error)
	case WriteFailed:
		s.writeFailed(decision, outcome, now)
	case WriteHeld:
		s.writeHeld(decision, outcome.Hold, now)
	}
}

// rescale is a write that succeeded.
type rescale struct {
	from, to int32
	// at is when it was made.
	at      time.Time
	message string
	rules   eventRules
	// commanded reports whether a person set the count: that is no scale event, and a
	// count of 0 not the autoscaler's own.
	commanded bool
}

// rescaled applies a write that succeeded (R72, R74).
func (s *Settlement) rescaled(change rescale, now time.Time) {
	s.Status.Conditions = setCondition(s.Status.Conditions, now,
		AbleToScale, ConditionTrue, "SucceededRescale", "the target was scaled to "+itoa(change.to)+" replicas")
	s.event(NormalEvent, rescaledReason, change.message)
	s.rememberChange(change)
	s.rememberZero(change, now)
	s.overwritten(now)
	s.Status.DesiredReplicas, s.Status.LastScaleTime = change.to, change.at
}

// rememberChange stores the scale event, with behavior only (R73).
func (s *Settlement) rememberChange(change rescale) {
	behavior := change.rules.behavior
	switch by := int64(change.to) - int64(change.from); {
	case behavior == nil, change.commanded:
	case by > 0:
		s.Memory.ScaleUpEvents = rememberEvent(s.Memory.ScaleUpEvents, by, change.at, longestPeriod(behavior.ScaleUp))
	case by < 0:
		s.Memory.ScaleDownEvents = rememberEvent(s.Memory.ScaleDownEvents, -by, change.at, longestPeriod(behavior.ScaleDown))
	}
}

// rememberEvent returns the list of a direction with one more event: the last
// outdated one is overwritten, else it is appended (R73).
func rememberEvent(list []ScaleEvent, change int64, at time.Time, longest time.Duration) []ScaleEvent {
	next := append(make([]ScaleEvent, 0, len(list)+1), list...)
	cutoff := at.Add(-longest)
	slot := -1
	for i := range next {
		if next[i].Time.Before(cutoff) {
			next[i].Outdated = true
		}
		if next[i].Outdated {
			slot = i
		}
	}
	event := ScaleEvent{Change: saturateToInt32(change), Time: at}
	if slot < 0 {
		return append(next, event)
	}
	next[slot] = event
	return next
}

// rememberZero sets ScaledToZero, which distinguishes the autoscaler's own zero from a
// person's (R72, R54).
func (s *Settlement) rememberZero(change rescale, now time.Time) {
	switch {
	case !change.rules.scaleToZero:
		s.Status.Conditions = removeCondition(s.Status.Conditions, ScaledToZero)
	case change.from > 0 && change.to == 0 && change.rules.mayBeZero && !change.commanded:
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ScaledToZero, ConditionTrue, "ScaledToZero",
			"the autoscaler scaled the target to zero, metrics will scale it up again")
	default:
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ScaledToZero, ConditionFalse, "NotScaledToZero",
			"the autoscaler did not scale the target to zero")
	}
}

// writeFailed applies a write that failed (R71, R75). The error names the attempt.
func (s *Settlement) writeFailed(decision *Decision, outcome Outcome, now time.Time) {
	s.event(WarningEvent, failedRescaleReason, outcome.Error)
	s.Status.Conditions = setCondition(s.Status.Conditions, now,
		AbleToScale, ConditionFalse, cmp.Or(outcome.Reason, failedUpdateReason), outcome.Error)
	s.Status.DesiredReplicas = decision.settling.previous.DesiredReplicas
	s.fail(outcome.Error)
}

// writeHeld applies that a platform that did not want to be written to. A hold that
// lasts keeps the time at which it began, although the pass, which did not know
// of it yet, said otherwise in between.
func (s *Settlement) writeHeld(decision *Decision, hold *Hold, now time.Time) {
	if hold == nil {
		hold = &Hold{Message: "the platform holds the target"}
	}
	since := now
	before := findCondition(decision.settling.previous.Conditions, AbleToScale)
	if before != nil && before.Status == ConditionFalse {
		since = before.Since
	}
	if decision.Hold == nil && !held(decision.settling.previous.Conditions, hold) { // else the pass added it
		event := hold.event()
		s.event(event.Kind, event.Reason, event.Message)
	}
	s.Status.Conditions = setCondition(s.Status.Conditions, since,
		AbleToScale, ConditionFalse, holdReason(hold), hold.Message)
}

// event adds an event, leaving the decision's own list alone.
func (s *Settlement) event(kind EventKind, reason, message string) {
	s.Events = append(slices.Clip(s.Events), Event{Kind: kind, Reason: reason, Message: message})
}

// fail adds to the error of the pass.
func (s *Settlement) fail(message string) {
	switch {
	case message == "":
	case s.Error == "":
		s.Error = message
	default:
		s.Error = message + "; " + s.Error
	}
}

// StatusWriteFailed returns the events of the pass when its status could not be
// written: FailedUpdateStatus stands before FailedComputeMetricsReplicas, which
// follows the status, and last otherwise (R74, R78). A status that did not
// change is not written, and its events stay as they are.
func (s Settlement) StatusWriteFailed(message string) []Event {
	if !s.StatusChanged {
		return s.Events
	}
	at := len(s.Events)
	if at > 0 && s.Events[at-1].Reason == failedComputeReason {
		at--
	}
	return slices.Insert(slices.Clone(s.Events), at, Event{Kind: WarningEvent, Reason: failedStatusReason, Message: message})
}

// SettleLate applies a write of an earlier pass whose outcome was not known
// then and that turned out to have been made: what R72 and R73 ask for, as of
// the intention's time. Memory and status are the present ones; conditions that
// change do so at now.
func SettleLate(settings Settings, spec Spec, memory Memory, status Status, intention Intention, now time.Time) Settlement {
	message := intention.Message
	if message == "" {
		message = newSize(intention.To, "a write of an earlier pass turned out to have been made")
	}
	s := Settlement{Memory: memory, Status: status}
	s.rescaled(rescale{
		from: intention.From, to: intention.To, at: intention.Time,
		message: message, rules: eventRulesFor(&settings, &spec), commanded: intention.Reason == Commanded,
	}, now)
	s.StatusChanged = !status.Same(s.Status)
	return s
}
