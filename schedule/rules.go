package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

// Rules are the schedules of an autoscaler, in the order of the file.
type Rules []Rule

// State contains the bounds and the mode that apply at an instant.
type State struct {
	Min, Max int32
	Mode     policy.Mode
	// ModeSchedule is the name of the schedule that sets the mode, or empty.
	ModeSchedule string
	// Active lists the names of the active schedules in the order of the file, including a schedule
	// whose ramp has started.
	Active []string
	// Contradiction is set if a schedule sets a minimum above the maximum that another schedule
	// sets. Then Max is the minimum.
	Contradiction bool
}

// Equal reports whether two states have the same bounds, mode and active schedules.
func (s State) Equal(other State) bool {
	return s.Min == other.Min && s.Max == other.Max && s.Mode == other.Mode && slices.Equal(s.Active, other.Active)
}

// At returns the state at an instant. base contains the bounds and the mode without schedules. The
// highest minimum, the lowest maximum and the first mode of the active schedules apply. During a ramp,
// a maximum applies only if it is above the base and no schedule in its window sets a maximum.
func (rules Rules) At(t time.Time, base State) State {
	state := base
	var minimum, maximum, rampMaximum *int32
	var mode *policy.Mode
	for i := range rules {
		r := &rules[i]
		_, active := r.covers(t, 0)
		raised := active
		if !active && r.Ramp > 0 && r.MinReplicas != nil {
			_, raised = r.covers(t, r.Ramp)
		}
		if raised {
			state.Active = append(state.Active, r.Name)
		}
		if raised && r.MinReplicas != nil && (minimum == nil || *r.MinReplicas > *minimum) {
			minimum = r.MinReplicas
		}
		if active && r.MaxReplicas != nil && (maximum == nil || *r.MaxReplicas < *maximum) {
			maximum = r.MaxReplicas
		}
		if raised && r.MaxReplicas != nil && *r.MaxReplicas > base.Max && (rampMaximum == nil || *r.MaxReplicas < *rampMaximum) {
			rampMaximum = r.MaxReplicas
		}
		if active && r.mode != nil && mode == nil {
			mode, state.ModeSchedule = r.mode, r.Name
		}
	}
	if minimum != nil {
		state.Min = *minimum
	}
	if maximum = cmp.Or(maximum, rampMaximum); maximum != nil {
		state.Max = *maximum
	}
	if mode != nil {
		state.Mode = *mode
	}
	if state.Min > state.Max {
		state.Max, state.Contradiction = state.Min, true
	}
	return state
}

// Next returns the first instant after t and before limit at which a window or a ramp starts or
// ends, and the zone of its schedule. The instant is zero without such a change.
func (rules Rules) Next(t, limit time.Time) (next time.Time, zone *time.Location) {
	for i := range rules {
		r := &rules[i]
		leads := [...]time.Duration{0, r.Ramp}
		for _, lead := range leads {
			if at := r.next(t, lead, limit); !at.IsZero() && (next.IsZero() || at.Before(next)) {
				next, zone = at, r.zone
			}
		}
	}
	return next, zone
}

// Horizon limits the search for the next change of an autoscaler.
const Horizon = 400 * day

// CanContradict reports whether a schedule sets a minimum above the maximum of another schedule.
func (rules Rules) CanContradict() bool {
	for i := range rules {
		for j := range rules {
			if minimum, maximum := rules[i].MinReplicas, rules[j].MaxReplicas; minimum != nil && maximum != nil && *minimum > *maximum {
				return true
			}
		}
	}
	return false
}

// Contradictions describes the periods in [from, to) with a contradiction.
func (rules Rules) Contradictions(from, to time.Time) (periods []string) {
	base := State{Min: 1, Max: 1<<31 - 1}
	for at := from; !at.IsZero(); {
		state := rules.At(at, base)
		next, zone := rules.Next(at, to)
		if state.Contradiction && zone != nil {
			periods = append(periods, fmt.Sprintf("%s: %s to %s", strings.Join(state.Active, " and "),
				at.In(zone).Format(minuteFormat), next.In(zone).Format(minuteFormat+" MST")))
		}
		at = next
	}
	return periods
}

// Zone returns the zone of the first schedule. There must be a schedule.
func (rules Rules) Zone() *time.Location { return rules[0].zone }
