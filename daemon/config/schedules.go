package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

const schedulesKey = "schedules"

// readSchedules validates the schedules of an autoscaler. Each schedule must be valid with the
// autoscaler's own bounds, without the other schedules.
func (t *table) readSchedules(c *Config, given []schedule.Config, a *Autoscaler) {
	if len(given) > 0 && c.Daemon.Strict() {
		t.add(schedulesKey, "", `is not allowed with compat = "strict": an HPA has no schedules`)
		return
	}
	var names []string
	for i := range given {
		key := element(schedulesKey, i)
		rule, mistakes := schedule.Compile(given[i])
		for _, mistake := range mistakes {
			t.addWritten(under(key, mistake.Field), mistake.Detail)
		}
		if rule.Name != "" && slices.Contains(names, rule.Name) {
			t.addWritten(join(key, "name"), "is already the name of another schedule of this autoscaler")
		}
		names = append(names, rule.Name)
		spec := a.Spec
		if rule.MinReplicas != nil {
			spec.MinReplicas = rule.MinReplicas
		}
		if rule.MaxReplicas != nil {
			spec.MaxReplicas = *rule.MaxReplicas
		}
		for _, mistake := range policy.Validate(spec, c.Daemon.ScaleToZero) {
			switch field := mistake.Field; {
			case field == maxKey && rule.MaxReplicas == nil && rule.MinReplicas != nil:
				t.add(join(key, minKey), fmt.Sprint(*rule.MinReplicas), fmt.Sprintf("must be at most max_replicas, which is %d; or set max_replicas in this schedule", spec.MaxReplicas))
			case field == maxKey && rule.MaxReplicas != nil && rule.MinReplicas == nil && *rule.MaxReplicas > 0:
				t.addWritten(join(key, maxKey), mistake.Detail+"; or set min_replicas in this schedule")
			case field == minKey && rule.MinReplicas != nil, field == maxKey && rule.MaxReplicas != nil:
				t.addWritten(join(key, field), mistake.Detail)
			case field == metricsKey && rule.MinReplicas != nil && *rule.MinReplicas == 0:
				t.add(join(key, minKey), "0", "requires an Object or External metric")
			}
		}
		a.Schedules = append(a.Schedules, rule)
	}
	if len(t.misfits) == 0 && len(t.loader.errs) == 0 {
		t.checkSchedules(a)
	}
}

// mostContradictions is the maximum number of periods in a warning.
const mostContradictions = 3

// checkSchedules warns of single periods that have ended, and of the periods in the next 400 days
// in which the minimum of one schedule is above the maximum of another.
func (t *table) checkSchedules(a *Autoscaler) {
	now := time.Now()
	for i := range a.Schedules {
		if a.Schedules[i].Ended(now) {
			t.warn(join(element(schedulesKey, i), "end"), "is in the past, so the schedule has no effect: remove the schedule, or change its dates")
		}
	}
	if !a.Schedules.CanContradict() {
		return
	}
	text, more := "", 0
	for _, period := range a.Schedules.Contradictions(now, now.Add(schedule.Horizon)) {
		if more++; more <= mostContradictions {
			text += "; " + period
		}
	}
	if more > mostContradictions {
		text += fmt.Sprintf("; and %d more", more-mostContradictions)
	}
	if text != "" {
		t.warn(schedulesKey, "schedules contradict each other, and the minimum wins"+text)
	}
}

// At returns the autoscaler with the bounds and the mode that its schedules set at an instant, and
// the state of the schedules. It returns a itself if they change nothing.
func (a *Autoscaler) At(t time.Time) (*Autoscaler, schedule.State) {
	if len(a.Schedules) == 0 {
		return a, schedule.State{}
	}
	base := schedule.State{Min: *a.Spec.MinReplicas, Max: a.Spec.MaxReplicas, Mode: a.Mode}
	state := a.Schedules.At(t, base)
	if state.Min == base.Min && state.Max == base.Max && state.Mode == base.Mode {
		return a, state
	}
	next := *a
	next.Spec.MinReplicas, next.Spec.MaxReplicas, next.Mode = &state.Min, state.Max, state.Mode
	return &next, state
}

// NextChange returns the first instant after t and before limit at which the bounds, the mode or
// the active schedules change. It is zero without such a change.
func (a *Autoscaler) NextChange(t, limit time.Time) time.Time {
	_, before := a.At(t)
	for next := a.Schedules.Next(t, limit); !next.IsZero(); next = a.Schedules.Next(next, limit) {
		if _, after := a.At(next); !after.Equal(before) {
			return next
		}
	}
	return time.Time{}
}
