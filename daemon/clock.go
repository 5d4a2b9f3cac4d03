package daemon

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// dates are the times of instances, by id, as they were understood first: after a
// step back the wall clock shows a time twice. Without a step they hold what was
// of the future alone.
type dates map[string]date

// of returns instances with the steady times of what platforms say by the wall clock,
// and the dates to go on with. What has yet to come by it happened at now.
func (d dates) of(instances []policy.Instance, scale *clock.Scale, now time.Time) (dated []policy.Instance, known dates) {
	dated = instances
	for i := range instances {
		instance := &instances[i]
		before := d[instance.ID]
		next := date{
			started: before.started.of(instance.StartedAt, scale, now),
			changed: before.changed.of(instance.ReadinessChanged, scale, now),
		}
		moved := !next.started.steady.Equal(instance.StartedAt) || !next.changed.steady.Equal(instance.ReadinessChanged)
		if moved || scale.Stepped() {
			if known == nil {
				known = make(dates, len(instances))
			}
			known[instance.ID] = next
		}
		if !moved {
			continue
		}
		if &dated[0] == &instances[0] { // the reading is not ours to change
			dated = slices.Clone(instances)
		}
		dated[i].StartedAt, dated[i].ReadinessChanged = next.started.steady, next.changed.steady
	}
	return dated, known
}

// date has when an instance started and when its readiness changed.
type date struct{ started, changed stamp }

// stamp is a time by the wall clock, and the steady one.
type stamp struct{ wall, steady time.Time }

// of returns the stamp of a time that was read at now: itself, where it is of that
// time already.
func (s stamp) of(wall time.Time, scale *clock.Scale, now time.Time) stamp {
	if s.wall.Equal(wall) {
		return s
	}
	return stamp{wall: wall, steady: scale.Happened(wall, now)}
}

// shownBy returns a view with its times as the wall clock has them.
func shownBy(scale *clock.Scale, view api.Autoscaler) api.Autoscaler {
	if scale.Offset() == 0 {
		return view
	}
	view.Created = scale.Wall(view.Created)
	view.Status.LastScaleTime = scale.Wall(view.Status.LastScaleTime)
	view.Status.Metrics = slices.Clone(view.Status.Metrics)
	for i := range view.Status.Metrics {
		metric := &view.Status.Metrics[i]
		metric.FirstFailureTime = scale.Wall(metric.FirstFailureTime)
	}
	view.Status.Conditions = slices.Clone(view.Status.Conditions)
	for i := range view.Status.Conditions {
		condition := &view.Status.Conditions[i]
		condition.Since = scale.Wall(condition.Since)
	}
	e := &view.Evaluation
	e.Last, e.Next, e.QuarantinedUntil = scale.Wall(e.Last), scale.Wall(e.Next), scale.Wall(e.QuarantinedUntil)
	e.Since = scale.Wall(e.Since)
	if e.Untold != nil {
		e.Untold = &api.Untold{Changes: e.Untold.Changes, From: scale.Wall(e.Untold.From)}
	}
	view.Restore = restorationShownBy(scale, view.Restore)
	view.Pauses = pausesShownBy(scale, view.Pauses)
	view.Events = slices.Clone(view.Events)
	for i := range view.Events {
		event := &view.Events[i]
		event.First, event.Last = scale.Wall(event.First), scale.Wall(event.Last)
	}
	view.Next = nextShownBy(scale, view.Next)
	if view.Decision != nil {
		decision := decisionShownBy(scale, *view.Decision)
		view.Decision = &decision
	}
	view.Drains = slices.Clone(view.Drains)
	for i := range view.Drains {
		view.Drains[i] = drainShownBy(scale, view.Drains[i])
	}
	return view
}

// decisionShownBy returns a decision with its times as the wall clock has them;
// until when a platform holds is one of those already.
func decisionShownBy(scale *clock.Scale, decision policy.Decision) policy.Decision {
	decision.Time = scale.Wall(decision.Time)
	decision.Restore = restorationShownBy(scale, decision.Restore)
	decision.Pauses = pausesShownBy(scale, decision.Pauses)
	decision.Metrics = slices.Clone(decision.Metrics)
	for i := range decision.Metrics {
		result := &decision.Metrics[i]
		result.Current.FirstFailureTime = scale.Wall(result.Current.FirstFailureTime)
		if result.Fallback != nil {
			fallback := *result.Fallback
			fallback.FirstFailureTime, fallback.From = scale.Wall(fallback.FirstFailureTime), scale.Wall(fallback.From)
			result.Fallback = &fallback
		}
	}
	if s := decision.Stabilization; s != nil {
		stabilization := *s
		stabilization.BindingLeaves = scale.Wall(s.BindingLeaves)
		if s.Binding != nil {
			stabilization.Binding = &policy.Recommendation{Replicas: s.Binding.Replicas, Time: scale.Wall(s.Binding.Time)}
		}
		decision.Stabilization = &stabilization
	}
	return decision
}

func restorationShownBy(scale *clock.Scale, restoration *policy.Restoration) *policy.Restoration {
	if restoration == nil {
		return nil
	}
	shown := *restoration
	shown.Since = scale.Wall(shown.Since)
	return &shown
}

func nextShownBy(scale *clock.Scale, next *policy.Next) *policy.Next {
	if next == nil {
		return nil
	}
	shown := *next
	shown.At = scale.Wall(next.At)
	shown.Waits = slices.Clone(next.Waits)
	for i := range shown.Waits {
		shown.Waits[i].Until = scale.Wall(shown.Waits[i].Until)
	}
	move := func(m *policy.Move) *policy.Move {
		if m == nil {
			return nil
		}
		return &policy.Move{At: scale.Wall(m.At), Metrics: m.Metrics}
	}
	shown.Up, shown.Down = move(next.Up), move(next.Down)
	return &shown
}

func drainShownBy(scale *clock.Scale, op drain.Operation) drain.Operation {
	op.Begun, op.Deadline = scale.Wall(op.Begun), scale.Wall(op.Deadline)
	op.Changed, op.Ended = scale.Wall(op.Changed), scale.Wall(op.Ended)
	op.Instance.Deadline = scale.Wall(op.Instance.Deadline)
	return op
}

// nextTick returns the first multiple of period since the epoch after t.
func nextTick(t time.Time, period time.Duration) time.Time {
	return lastTick(t, period).Add(period)
}

// lastTick returns the last multiple of period since the epoch not after t.
func lastTick(t time.Time, period time.Duration) time.Time {
	since := t.UnixNano() % int64(period)
	if since < 0 {
		since += int64(period)
	}
	return time.Unix(0, t.UnixNano()-since).UTC()
}
