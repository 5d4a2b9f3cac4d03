package policy

import (
	"strconv"
	"time"
)

// Direction distinguishes scale-ups from scale-downs.
type Direction string

// The directions.
const (
	Up             Direction = "up"
	Down           Direction = "down"
	BothDirections Direction = "both"
)

// Covers reports whether d includes a change from one count to another.
func (d Direction) Covers(from, to int32) bool {
	switch d {
	case Up:
		return to > from
	case Down:
		return to < from
	}
	return to != from
}

// Scope is one autoscaler, the autoscalers of a fleet, or all autoscalers if Autoscaler and Fleet
// are empty.
type Scope struct {
	Autoscaler string `json:"autoscaler,omitempty"`
	Fleet      string `json:"fleet,omitempty"`
	// Breaker is set if Fleet's breaker started the pause.
	Breaker bool `json:"breaker,omitempty"`
}

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

// Pause prevents changes of the count for a while. Passes continue and record the decisions that
// they do not apply.
type Pause struct {
	Scope
	Direction Direction `json:"direction"`
	// Reason is text from the operator. Author is the operator's name.
	Reason string `json:"reason,omitempty"`
	Author string `json:"author,omitempty"`
	// Since is when the pause began, and Until is when it ends automatically; zero if it does not.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Message is a description of the pause.
	Message string `json:"message,omitempty"`
}

// Ended reports whether the pause has ended at now.
func (p *Pause) Ended(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// HeldBy is the mechanism in hpad that prevents a change. Decision.Hold contains a hold by the
// platform.
type HeldBy string

// The values of HeldBy.
const (
	HeldByPause HeldBy = "pause"
	// HeldByBreaker is the breaker of the fleet.
	HeldByBreaker HeldBy = "breaker"
	HeldByMode    HeldBy = "mode"
)

// HeldBy returns HeldByPause or HeldByBreaker.
func (p *Pause) HeldBy() HeldBy {
	if p.Breaker {
		return HeldByBreaker
	}
	return HeldByPause
}

// PausedBy reports whether a pause or the breaker prevents the change.
func (d *Decision) PausedBy() bool { return d.HeldBy == HeldByPause || d.HeldBy == HeldByBreaker }

// The reasons in the condition Paused.
const (
	pausedReason     = "Paused"
	pausedUpReason   = "PausedUp"
	pausedDownReason = "PausedDown"
	breakerReason    = "BreakerOpen"
	resumedReason    = "Resumed"
)

// IsPause reports whether the event is about a pause.
func (e Event) IsPause() bool {
	switch e.Reason {
	case pausedReason, pausedUpReason, pausedDownReason, breakerReason, resumedReason:
		return true
	}
	return false
}

// noticePauses sets the condition Paused, with an event for each change. The condition is absent
// before the first pause.
func (p *pass) noticePauses() {
	d, pauses := &p.decision, p.observation.Pauses
	d.Pauses = pauses
	before := findCondition(p.status.Conditions, Paused)
	was := before != nil && before.Status == ConditionTrue
	if len(pauses) == 0 {
		if was {
			message := p.observation.Resumed
			if message == "" {
				message = "the pause has ended"
			}
			d.Events = append(d.Events, Event{Kind: NormalEvent, Reason: resumedReason, Message: message})
			p.set(Paused, ConditionFalse, resumedReason, message)
		}
		return
	}
	d.reportPauses(pauses, before, p.now)
}

// reportPauses sets the condition Paused for active pauses, with an event if it changes.
func (d *Decision) reportPauses(pauses []Pause, before *Condition, now time.Time) {
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

// pauseOf returns the pause that prevents a change, or nil.
func (p *pass) pauseOf(from, to int32) *Pause {
	for i := range p.observation.Pauses {
		if pause := &p.observation.Pauses[i]; pause.Direction.Covers(from, to) {
			return pause
		}
	}
	return nil
}

// HoldBy applies pauses that began after the decision. It reports whether such a pause prevents the
// change.
func (d *Decision) HoldBy(pauses []Pause, now time.Time) bool {
	for i := range pauses {
		if pauses[i].Direction.Covers(d.CurrentReplicas, d.DesiredReplicas) {
			d.Write, d.HeldBy, d.Pauses = false, pauses[i].HeldBy(), pauses
			d.Message = "no change: " + itoa(d.DesiredReplicas) + " replicas are wanted, but " + pauses[i].Message
			d.reportPauses(pauses, findCondition(d.Status.Conditions, Paused), now)
			return true
		}
	}
	return false
}
