package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
)

const schedulesKey = "schedules"

// readSchedules validates the schedules of an autoscaler. Each schedule must be valid with the
// autoscaler's own bounds, without the other schedules.
func (t *table) readSchedules(c *Config, given []schedule.Config, a *Autoscaler) {
	if len(given) > maxSchedules {
		t.add(schedulesKey, "", fmt.Sprintf("has %d schedules, and at most %d are possible", len(given), maxSchedules))
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
		stops := spec.MaxReplicas == 0 && rule.MaxReplicas != nil
		if stops && *spec.MinReplicas == 0 {
			spec.MaxReplicas = 1 // no other value of max_replicas can be 0
		}
		for _, mistake := range policy.Validate(spec, c.Daemon.ScaleToZero) {
			switch field := mistake.Field; {
			case stops && field == maxKey:
				t.addWritten(join(key, maxKey), "stops the target, which requires min_replicas = 0 in this schedule")
			case stops && field == metricsKey: // the end of the window starts the target, without a metric
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

const (
	// maxSchedules is the maximum number of schedules of an autoscaler. Each pass evaluates all.
	maxSchedules = 200
	// mostContradictions is the maximum number of periods in a warning.
	mostContradictions = 3
	// maxScheduleSteps limits the search for contradictions in a configuration, and
	// maxAutoscalerSteps in one autoscaler. A step takes about a microsecond.
	maxScheduleSteps   = 2_000_000
	maxAutoscalerSteps = 200_000
)

// checkSchedules warns of single periods that have ended, and of the periods in the next 400 days
// with a minimum of one schedule above the maximum of another.
func (t *table) checkSchedules(a *Autoscaler) {
	now := time.Now()
	for _, i := range a.Schedules.Idle(a.unscheduled()) {
		t.warn(element(schedulesKey, i), "has no effect: the autoscaler has the same values")
	}
	if a.Mode == policy.ModeOff && len(a.Schedules) > 0 && !slices.ContainsFunc(a.Schedules, func(r schedule.Rule) bool { return r.Mode != "" && r.Mode != policy.ModeOff }) {
		t.warn(schedulesKey, `have no effect: the mode of the autoscaler is "off"; set mode in a schedule`)
	}
	for i := range a.Schedules {
		for _, suspect := range a.Schedules[i].Suspects() {
			t.warn(join(element(schedulesKey, i), suspect.Field), suspect.Detail)
		}
		if a.Schedules[i].Ended(now) {
			t.warn(join(element(schedulesKey, i), "end"), "is in the past, so the schedule has no effect: remove the schedule, or change its dates")
		}
	}
	if !a.Schedules.CanContradict() {
		return
	}
	steps, horizon := min(maxAutoscalerSteps, t.loader.scheduleSteps), now.Add(schedule.Horizon)
	periods, until, left := a.Schedules.Contradictions(t.loader.ctx, now, horizon, steps)
	t.loader.scheduleSteps -= steps - left
	text := strings.Join(periods[:min(len(periods), mostContradictions)], "; ")
	if more := len(periods) - mostContradictions; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	limit := ""
	if until.Before(horizon) {
		limit = fmt.Sprintf("the schedules change very often, so hpad checked only the time until %s for contradictions", until.In(a.Schedules.Zone()).Format("2006-01-02 15:04 MST"))
	}
	switch {
	case text != "" && limit != "":
		t.warn(schedulesKey, "schedules contradict each other, and the minimum wins; "+text+"; "+limit)
	case text != "":
		t.warn(schedulesKey, "schedules contradict each other, and the minimum wins; "+text)
	case limit != "":
		t.warn(schedulesKey, limit)
	}
}

// At returns the autoscaler with the bounds and the mode that its schedules set at an instant, and
// the state of the schedules. It returns a itself if the schedules have no effect.
func (a *Autoscaler) At(t time.Time) (*Autoscaler, schedule.State) {
	if len(a.Schedules) == 0 {
		return a, schedule.State{}
	}
	state := a.Schedules.At(t, a.unscheduled())
	spec, mode, changed := state.Apply(a.Spec, a.Mode)
	if !changed {
		return a, state
	}
	next := *a
	next.Spec, next.Mode = spec, mode
	return &next, state
}

// unscheduled returns the state without schedules.
func (a *Autoscaler) unscheduled() schedule.State {
	return schedule.Unscheduled(a.Spec, a.Mode)
}

// NextChange returns when the bounds, the mode or the active schedules first change, after t and
// before limit. It is zero without such a change.
func (a *Autoscaler) NextChange(t, limit time.Time) time.Time {
	for at := range a.Changes(t, limit) {
		if at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// Changes iterates over the state at t, and over each later change of the bounds, the mode or the
// active schedules before limit.
func (a *Autoscaler) Changes(t, limit time.Time) iter.Seq2[time.Time, schedule.State] {
	return func(yield func(time.Time, schedule.State) bool) {
		var before schedule.State
		for at, state := range a.Schedules.Changes(t, limit, a.unscheduled()) {
			if at.After(t) && state.Equal(before) {
				continue
			}
			if before = state; !yield(at, state) {
				return
			}
		}
	}
}
