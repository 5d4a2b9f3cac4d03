package schedule

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
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
	// MinSchedule, MaxSchedule and ModeSchedule are the names of the schedules that set the value,
	// or empty.
	MinSchedule, MaxSchedule, ModeSchedule string
	// Active lists the names of the active schedules in the order of the file, including the
	// schedules in Ramps. Ramps lists the schedules with a started ramp, before the start of the
	// window.
	Active, Ramps []string
	// Contradiction is set if a schedule sets a minimum above the maximum that another schedule
	// sets. Then Max is the minimum.
	Contradiction bool
}

// Equal reports whether two states have the same bounds, mode and active schedules.
func (s State) Equal(other State) bool {
	return s.Min == other.Min && s.Max == other.Max && s.Mode == other.Mode && slices.Equal(s.Active, other.Active)
}

// Unscheduled returns the state of a defaulted spec and a mode without schedules.
func Unscheduled(spec policy.Spec, mode policy.Mode) State {
	return State{Min: *spec.MinReplicas, Max: spec.MaxReplicas, Mode: mode}
}

// Apply returns a defaulted spec with the bounds of the state, and the mode of the state. changed
// reports whether they differ from the arguments.
func (s State) Apply(spec policy.Spec, mode policy.Mode) (_ policy.Spec, _ policy.Mode, changed bool) {
	if s.Min == *spec.MinReplicas && s.Max == spec.MaxReplicas && s.Mode == mode {
		return spec, mode, false
	}
	spec.MinReplicas, spec.MaxReplicas = &s.Min, s.Max
	return spec, s.Mode, true
}

// At returns the state at an instant. base contains the bounds and the mode without schedules. The
// highest minimum, the lowest maximum and the first mode of the active schedules apply. During a ramp,
// a maximum applies only if it is above the base and no schedule in its window sets a maximum.
func (rules Rules) At(t time.Time, base State) State {
	return rules.combine(base, func(i int) (active, raised bool) {
		active = rules[i].covers(t, 0)
		return active, active || rules[i].Ramp > 0 && rules[i].covers(t, rules[i].Ramp)
	})
}

// combine returns the state if each rule is active, or raised if its ramp has started too, as
// the function returns.
func (rules Rules) combine(base State, at func(i int) (active, raised bool)) State {
	state := base
	var minimum, maximum, rampMaximum *Rule
	for i := range rules {
		r := &rules[i]
		active, raised := at(i)
		if !raised {
			continue
		}
		state.Active = append(state.Active, r.Name)
		if !active {
			state.Ramps = append(state.Ramps, r.Name)
		}
		if r.MinReplicas != nil && (minimum == nil || *r.MinReplicas > *minimum.MinReplicas) {
			minimum = r
		}
		if active && r.MaxReplicas != nil && (maximum == nil || *r.MaxReplicas < *maximum.MaxReplicas) {
			maximum = r
		}
		if r.MaxReplicas != nil && *r.MaxReplicas > base.Max && (rampMaximum == nil || *r.MaxReplicas < *rampMaximum.MaxReplicas) {
			rampMaximum = r
		}
		if active && r.Mode != "" && state.ModeSchedule == "" {
			state.Mode, state.ModeSchedule = r.Mode, r.Name
			if r.Mode == modeOn {
				state.Mode = policy.ModeOn
			}
		}
	}
	if minimum != nil {
		state.Min, state.MinSchedule = *minimum.MinReplicas, minimum.Name
	}
	if maximum = cmp.Or(maximum, rampMaximum); maximum != nil {
		state.Max, state.MaxSchedule = *maximum.MaxReplicas, maximum.Name
	}
	if state.Min > state.Max {
		state.Max, state.MaxSchedule, state.Contradiction = state.Min, state.MinSchedule, true
	}
	return state
}

// Changes iterates over the state at t, and at each later instant before limit at which a window or
// a ramp starts or ends. Consecutive states can be equal.
func (rules Rules) Changes(t, limit time.Time, base State) iter.Seq2[time.Time, State] {
	return rules.changes(t, limit, base, new(int))
}

// changes is Changes. It adds the number of its steps to spent. The cost of each step is constant.
func (rules Rules) changes(t, limit time.Time, base State, spent *int) iter.Seq2[time.Time, State] {
	return func(yield func(time.Time, State) bool) {
		windows := make([][2]window, len(rules)) // the windows of each rule without and with its ramp
		for at := t; at.Before(limit); {
			next := limit
			*spent += len(rules)
			for i := range rules {
				for j, lead := range [...]time.Duration{0, rules[i].Ramp} {
					w := &windows[i][j]
					if j > 0 && lead == 0 {
						*w = windows[i][0]
						break
					}
					if !at.Before(w.end) {
						var steps int
						*w, steps = rules[i].window(at, lead, limit)
						*spent += steps
					}
					for _, change := range [...]time.Time{w.begin, w.end} {
						if change.After(at) && change.Before(next) {
							next = change
						}
					}
				}
			}
			state := rules.combine(base, func(i int) (active, raised bool) {
				return windows[i][0].contains(at), windows[i][1].contains(at)
			})
			if !yield(at, state) {
				return
			}
			at = next
		}
	}
}

// Horizon limits the search for contradictions.
const Horizon = 400 * day

// CanContradict reports whether a schedule sets a minimum above the maximum of another schedule.
func (rules Rules) CanContradict() bool {
	highest, lowest := int32(0), int32(math.MaxInt32)
	for i := range rules {
		if rules[i].MinReplicas != nil {
			highest = max(highest, *rules[i].MinReplicas)
		}
		if rules[i].MaxReplicas != nil {
			lowest = min(lowest, *rules[i].MaxReplicas)
		}
	}
	return highest > lowest
}

// Contradictions describes the periods in [from, to) with a contradiction. It takes about budget
// steps, and returns the instant up to which it did so; that is to, unless the budget is used up or
// ctx ends. left is the remaining budget.
func (rules Rules) Contradictions(ctx context.Context, from, to time.Time, budget int) (periods []string, until time.Time, left int) {
	describe := func(active []string, since, until time.Time) {
		periods = append(periods, fmt.Sprintf("%s: %s to %s", strings.Join(active, " and "),
			since.In(rules.Zone()).Format(minuteFormat), until.In(rules.Zone()).Format(minuteFormat+" MST")))
	}
	if budget < len(rules) || ctx.Err() != nil { // the first step is the most expensive one
		return nil, from, 0
	}
	var before State
	since, spent := from, 0
	for at, state := range rules.changes(from, to, State{Min: 1, Max: math.MaxInt32}, &spent) {
		if !state.Equal(before) {
			if before.Contradiction {
				describe(before.Active, since, at)
			}
			before, since = state, at
		}
		if spent > budget || ctx.Err() != nil {
			return periods, at, max(budget-spent, 0)
		}
	}
	if before.Contradiction {
		describe(before.Active, since, to)
	}
	return periods, to, max(budget-spent, 0)
}

// Zone returns the zone of the first schedule. There must be a schedule.
func (rules Rules) Zone() *time.Location { return rules[0].zone }
