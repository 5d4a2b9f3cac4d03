package policy

import (
	"strconv"
	"time"
)

// Direction is a way in which a count changes.
type Direction string

// The directions. BothDirections is either of them.
const (
	Up             Direction = "up"
	Down           Direction = "down"
	BothDirections Direction = "both"
)

// Covers reports whether a change of a count is one in the direction.
func (d Direction) Covers(from, to int32) bool {
	switch d {
	case Up:
		return to > from
	case Down:
		return to < from
	}
	return to != from
}

// Scope is what a person's act is about: one autoscaler, those of a fleet, or with both
// fields empty all, also autoscalers that are added later.
type Scope struct {
	Autoscaler string `json:"autoscaler,omitempty"`
	Fleet      string `json:"fleet,omitempty"`
	// Breaker reports whether it is what the breaker of Fleet holds, and nobody's act.
	Breaker bool `json:"breaker,omitempty"`
}

// String returns the scope in words, as `fleet "prod"`.
func (s Scope) String() string {
	switch {
	case s.Breaker:
		return "breaker of fleet " + strconv.Quote(s.Fleet)
	case s.Autoscaler != "":
		return "autoscaler " + strconv.Quote(s.Autoscaler)
	case s.Fleet != "":
		return "fleet " + strconv.Quote(s.Fleet)
	}
	return "all autoscalers"
}

// Pause is that a person wants counts not to be changed for now. Passes go on, and
// record what they would have done.
type Pause struct {
	Scope
	// Direction is which changes it holds.
	Direction Direction `json:"direction"`
	// Reason is the person's own; empty when none was given. Author is who paused.
	Reason string `json:"reason,omitempty"`
	Author string `json:"author,omitempty"`
	// Since is when it began, Until when it ends by itself; zero when it does not.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Renews reports whether it begins again when it ends, for as long as as much is asked
	// for: a breaker's does that would be too much for it by itself.
	Renews bool `json:"renews,omitempty"`
	// Message says all that in words.
	Message string `json:"message,omitempty"`
}

// Ended reports whether the pause is over at now.
func (p *Pause) Ended(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// HeldBy is what kept a decision from being carried out, besides the platform.
type HeldBy string

// What may keep a decision from being carried out. Where several do, it is the first.
const (
	HeldByPause HeldBy = "pause"
	// HeldByBreaker is what the breaker of the fleet does.
	HeldByBreaker HeldBy = "breaker"
	HeldByMode    HeldBy = "mode"
)

// HeldBy is what keeps a decision from being carried out by the pause.
func (p *Pause) HeldBy() HeldBy {
	if p.Breaker {
		return HeldByBreaker
	}
	return HeldByPause
}

// PausedBy reports whether a pause keeps the decision from being carried out, a person's
// or that of the fleet's breaker.
func (d *Decision) PausedBy() bool { return d.HeldBy == HeldByPause || d.HeldBy == HeldByBreaker }

// The reasons of Paused.
const (
	pausedReason     = "Paused"
	pausedUpReason   = "PausedUp"
	pausedDownReason = "PausedDown"
	breakerReason    = "BreakerOpen"
	resumedReason    = "Resumed"
)

// TellsOfPause reports whether the event is that a pause began, changed or ended.
func (e Event) TellsOfPause() bool {
	switch e.Reason {
	case pausedReason, pausedUpReason, pausedDownReason, breakerReason, resumedReason:
		return true
	}
	return false
}

// noticePauses sets the condition of pauses, and adds an event when they begin, change or
// end. An autoscaler that was never paused has no such condition.
func (p *pass) noticePauses() {
	d, pauses := &p.decision, p.observation.Pauses
	d.Pauses = pauses
	before := findCondition(p.status.Conditions, Paused)
	was := before != nil && before.Status == ConditionTrue
	if len(pauses) == 0 {
		if was {
			message := p.observation.Resumed
			if message == "" {
				message = "the pause is over"
			}
			d.Events = append(d.Events, Event{Kind: NormalEvent, Reason: resumedReason, Message: message})
			p.set(Paused, ConditionFalse, resumedReason, message)
		}
		return
	}
	d.tellOf(pauses, before, p.now)
}

// tellOf sets the condition of pauses that are in force, and adds an event where it was
// another one before.
func (d *Decision) tellOf(pauses []Pause, before *Condition, now time.Time) {
	message, up, down, breaker := "", false, false, false
	for i := range pauses {
		if i > 0 {
			message += "; "
		}
		message += pauses[i].Message
		breaker = breaker || pauses[i].Breaker
		up, down = up || pauses[i].Direction != Down, down || pauses[i].Direction != Up
	}
	reason, kind := pausedReason, NormalEvent
	switch {
	case breaker:
		reason, kind = breakerReason, WarningEvent
	case !down:
		reason = pausedUpReason
	case !up:
		reason = pausedDownReason
	}
	if before == nil || before.Status != ConditionTrue || before.Message != message {
		d.Events = append(d.Events, Event{Kind: kind, Reason: reason, Message: message})
	}
	d.Status.Conditions = setCondition(d.Status.Conditions, now, Paused, ConditionTrue, reason, message)
}

// pauseOf returns the pause that holds a change of the count; nil when none does.
func (p *pass) pauseOf(from, to int32) *Pause {
	for i := range p.observation.Pauses {
		if pause := &p.observation.Pauses[i]; pause.Direction.Covers(from, to) {
			return pause
		}
	}
	return nil
}

// HoldBy has a decision not be carried out that one of the pauses holds, which began after
// it was made at now, and reports whether one does.
func (d *Decision) HoldBy(pauses []Pause, now time.Time) bool {
	for i := range pauses {
		if pauses[i].Direction.Covers(d.CurrentReplicas, d.DesiredReplicas) {
			d.Write, d.HeldBy, d.Pauses = false, pauses[i].HeldBy(), pauses
			d.Message = "no change: " + itoa(d.DesiredReplicas) + " replicas are wanted, but " + pauses[i].Message
			d.tellOf(pauses, findCondition(d.Status.Conditions, Paused), now)
			return true
		}
	}
	return false
}
