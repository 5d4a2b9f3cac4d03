package policy

import (
	"cmp"
	"slices"
	"time"
)

// eventRules are the parts of the settings and the spec that [Settle] needs (R72, R73).
type eventRules struct {
	// behavior is nil if scale events are not stored.
	behavior *Behavior
	// scaleToZero is Settings.ScaleToZero. mayBeZero reports whether the spec allows zero replicas.
	scaleToZero, mayBeZero bool
}

func eventRulesFor(settings *Settings, spec *Spec) eventRules {
	return eventRules{
		behavior:    spec.Behavior,
		scaleToZero: settings.ScaleToZero,
		mayBeZero:   minReplicasOf(spec) == 0 && hasWholeMetric(spec),
	}
}

// longestPeriod returns the longest period of a direction's policies (R73).
func longestPeriod(rules *ScalingRules) (longest time.Duration) {
	if rules == nil {
		return 0
	}
	for i := range rules.Policies {
		longest = max(longest, seconds(rules.Policies[i].PeriodSeconds))
	}
	return longest
}

// Settle completes a pass after its write (R71 to R75, R25.8). The decision is not modified;
// the result may share memory with it.
func Settle(decision Decision, outcome Outcome, now time.Time) Settlement {
	s := Settlement{Memory: decision.Memory, Status: decision.Status, Events: decision.Events, Error: decision.Error}
	if decision.Case != CaseUnreadable && decision.Case != CaseMetricsFailed {
		s.settleWrite(&decision, outcome, now)
	}
	s.StatusChanged = !decision.previous.Same(s.Status)
	return s
}

// Explained returns the decision without the inputs of [Settle], for storage.
func (d Decision) Explained() Decision {
	d.Draft = nil
	return d
}

func (s *Settlement) settleWrite(decision *Decision, outcome Outcome, now time.Time) {
	switch outcome.Kind {
	case NotWritten:
	case Written:
		message := decision.Message
		if outcome.Reached != decision.DesiredReplicas {
			message += onlyReached(outcome.Reached)
		}
		change := rescale{
			from: decision.CurrentReplicas, to: outcome.Reached, at: now,
			message: message, rules: decision.rules, commanded: decision.Reason == Commanded,
			stopped: stops(decision.Reason, outcome.Reached),
		}
		s.rescaled(change, now)
		s.fail(outcome.Error)
	case WriteFailed:
		s.writeFailed(decision, outcome, now)
	case WriteHeld:
		s.writeHeld(decision, outcome.Hold, now)
	}
}

// onlyReached returns the end of the message for a write that reached a part of its count.
func onlyReached(reached int32) string { return "; only " + itoa(reached) + " could be reached" }

// rescale is a successful write.
type rescale struct {
	from, to int32
	at       time.Time
	message  string
	rules    eventRules
	// commanded is set if an operator set the count. Such a change is not a scale event, and a
	// count of 0 disables the autoscaler.
	commanded bool
	// stopped is set if a schedule with max_replicas = 0 set the count.
	stopped bool
}

// stops reports whether a change enforces max_replicas = 0, which only a schedule can set.
func stops(reason RescaleReason, to int32) bool {
	return to == 0 && (reason == AboveMax || reason == ForeignChanged)
}

// rescaled records a successful write (R72, R74).
func (s *Settlement) rescaled(change rescale, now time.Time) {
	s.Status.Conditions = setCondition(s.Status.Conditions, now,
		AbleToScale, ConditionTrue, "SucceededRescale", "the target was scaled to "+itoa(change.to)+" replicas")
	s.event(NormalEvent, rescaledReason, change.message)
	s.rememberChange(change)
	s.rememberZero(change, now)
	s.overwritten(now)
	s.Status.DesiredReplicas, s.Status.LastScaleTime = change.to, change.at
}

// rememberChange stores the scale event if the spec has a behavior (R73).
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

// rememberEvent returns the list with a new event, which overwrites the last outdated event (R73).
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

// rememberZero sets ScaledToZero, which shows whether the autoscaler or an operator scaled to zero
// (R72, R54).
func (s *Settlement) rememberZero(change rescale, now time.Time) {
	s.Memory.Stopped = change.stopped
	switch {
	case !change.rules.scaleToZero:
		s.Status.Conditions = removeCondition(s.Status.Conditions, ScaledToZero)
	case change.stopped:
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ScaledToZero, ConditionTrue, "ScaledToZero",
			"a schedule scaled the target to zero, the end of its window will scale it up again")
	case change.from > 0 && change.to == 0 && change.rules.mayBeZero && !change.commanded:
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ScaledToZero, ConditionTrue, "ScaledToZero",
			"the autoscaler scaled the target to zero, metrics will scale it up again")
	default:
		s.Status.Conditions = setCondition(s.Status.Conditions, now, ScaledToZero, ConditionFalse, "NotScaledToZero",
			"the autoscaler did not scale the target to zero")
	}
}

// writeFailed records a failed write (R71, R75).
func (s *Settlement) writeFailed(decision *Decision, outcome Outcome, now time.Time) {
	s.event(WarningEvent, failedRescaleReason, outcome.Error)
	s.Status.Conditions = setCondition(s.Status.Conditions, now,
		AbleToScale, ConditionFalse, cmp.Or(outcome.Reason, failedUpdateReason), outcome.Error)
	s.Status.DesiredReplicas = decision.previous.DesiredReplicas
	s.fail(outcome.Error)
}

// writeHeld records that the platform did not accept the write. A hold that continues from an
// earlier pass keeps its start time, although this pass has already changed the condition.
func (s *Settlement) writeHeld(decision *Decision, hold *Hold, now time.Time) {
	if hold == nil {
		hold = &Hold{Message: "the platform holds the target"}
	}
	since := now
	before := findCondition(decision.previous.Conditions, AbleToScale)
	if before != nil && before.Status == ConditionFalse {
		since = before.Since
	}
	if decision.Hold == nil && !held(decision.previous.Conditions, hold) { // otherwise the pass already added the event
		event := hold.event()
		s.event(event.Kind, event.Reason, event.Message)
	}
	s.Status.Conditions = setCondition(s.Status.Conditions, since,
		AbleToScale, ConditionFalse, holdReason(hold), hold.Message)
}

func (s *Settlement) event(kind EventKind, reason, message string) {
	s.Events = append(slices.Clip(s.Events), Event{Kind: kind, Reason: reason, Message: message})
}

func (s *Settlement) fail(message string) {
	switch {
	case message == "":
	case s.Error == "":
		s.Error = message
	default:
		s.Error = message + "; " + s.Error
	}
}

// StatusWriteFailed returns the events of a pass whose status could not be written.
// FailedUpdateStatus is the last event, except that FailedComputeMetricsReplicas follows it (R74,
// R78). An unchanged status is not written and adds no event.
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

// SettleLate records a write of an earlier pass that was confirmed later, and reached the count
// reached. The write's time is the time of the intention (R72, R73). memory and status are the current
// values. Conditions change at now.
func SettleLate(settings Settings, spec Spec, memory Memory, status Status, intention Intention, reached int32, now time.Time) Settlement {
	message := intention.Message
	if message == "" {
		message = newSize(intention.To, "a write of an earlier pass was confirmed")
	}
	if reached != intention.To {
		message += onlyReached(reached)
	}
	s := Settlement{Memory: memory, Status: status}
	s.rescaled(rescale{
		from: intention.From, to: reached, at: intention.Time,
		message: message, rules: eventRulesFor(&settings, &spec), commanded: intention.Reason == Commanded,
		stopped: stops(intention.Reason, reached),
	}, now)
	s.StatusChanged = !status.Same(s.Status)
	return s
}
