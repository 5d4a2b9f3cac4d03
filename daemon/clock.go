package daemon

import (
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// dates are the times of a target's instances as hpad understood them when it first read
// them, in the order of the ids. After a step back the wall clock shows a time twice, and
// only the first reading tells which one a date is.
type dates []date

// date has when an instance started and when its readiness changed.
type date struct {
	id               string
	started, changed stamp
}

// stamp is a time by the wall clock, and the lead of the wall clock over steady time then.
type stamp struct {
	wall  time.Time
	ahead time.Duration
}

func (s stamp) steady() time.Time { return s.wall.Add(-s.ahead) }

// of returns instances with their steady times, and the dates for the next reading. A date
// in the future is now.
func (d dates) of(instances []policy.Instance, scale *clock.Scale, now time.Time) (dated []policy.Instance, known dates) {
	known, dated = d.with(instances, scale, now), instances
	for i := range instances {
		date, _ := known.find(instances[i].ID)
		if date.started.ahead == 0 && date.changed.ahead == 0 {
			continue
		}
		if &dated[0] == &instances[0] { // the reading is not ours to change
			dated = slices.Clone(instances)
		}
		dated[i].StartedAt, dated[i].ReadinessChanged = date.started.steady(), date.changed.steady()
	}
	return dated, known
}

// with returns the dates of instances: d itself if it has them and no others, as in most
// readings.
func (d dates) with(instances []policy.Instance, scale *clock.Scale, now time.Time) dates {
	changed := len(d) != len(instances)
	for i := 0; i < len(instances) && !changed; i++ {
		before, found := d.find(instances[i].ID)
		changed = !found || !before.started.wall.Equal(instances[i].StartedAt) || !before.changed.wall.Equal(instances[i].ReadinessChanged)
	}
	if !changed {
		return d
	}
	next := make(dates, len(instances))
	for i := range instances {
		before, _ := d.find(instances[i].ID)
		next[i] = date{
			id:      instances[i].ID,
			started: before.started.of(instances[i].StartedAt, scale, now),
			changed: before.changed.of(instances[i].ReadinessChanged, scale, now),
		}
	}
	slices.SortFunc(next, func(a, b date) int { return strings.Compare(a.id, b.id) })
	return next
}

func (d dates) find(id string) (date, bool) {
	i, found := slices.BinarySearchFunc(d, id, func(d date, id string) int { return strings.Compare(d.id, id) })
	if !found {
		return date{}, false
	}
	return d[i], true
}

// of returns the stamp of a time that was read at now: s if it is of that time already.
func (s stamp) of(wall time.Time, scale *clock.Scale, now time.Time) stamp {
	if s.wall.Equal(wall) {
		return s
	}
	return stamp{wall: wall, ahead: wall.Sub(scale.Happened(wall, now))}
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
