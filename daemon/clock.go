package daemon

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// clockSteppedReason is the reason of the event that tells of a step.
const clockSteppedReason = "ClockStepped"

// clockSteps are the steps of the wall clock that this run noticed. They are never
// changed.
type clockSteps struct {
	count uint64
	// event tells of the last one.
	event policy.Event
}

// resumeClock makes the daemon's clock go on where the last run's was, and holds
// what was restored against it.
func (d *Daemon) resumeClock() {
	d.clock.Resume(d.restored.Clock)
	d.lookAtClock()
	d.metrics.ClockOffset(d.clock.Scale().Offset())
	d.restored = d.restored.WithoutFuture(d.clock.Now())
}

// lookAtClock notices a step of the wall clock. The scheduler calls it each time
// it wakes.
func (d *Daemon) lookAtClock() {
	if step, stepped := d.clock.Look(); stepped {
		d.reportStep(step)
	}
}

// reportStep logs and counts a step, and leaves it to the autoscalers' next passes
// as an event.
func (d *Daemon) reportStep(step clock.Step) {
	direction := "forward"
	if step.By < 0 {
		direction = "back"
	}
	by := step.By.Abs().Round(100 * time.Millisecond)
	d.log.Warn("the wall clock was stepped; windows and rates go on without it",
		zap.String("direction", direction), zap.Duration("by", by), zap.Duration("offset", step.Offset))
	d.metrics.ClockStep(step.By, step.Offset)
	d.steps.Store(&clockSteps{count: d.steps.Load().count + 1, event: policy.Event{
		Kind: policy.WarningEvent, Reason: clockSteppedReason,
		Message: fmt.Sprintf("the wall clock was stepped %s by %s; windows and rates go on without it", direction, by),
	}})
}

// clockEvents returns the event of a step that the autoscaler has not told of yet.
func (p *pass) clockEvents() []policy.Event {
	a, steps := p.plan.autoscaler, p.round.daemon.steps.Load()
	if a.stepsTold == steps.count {
		return nil
	}
	a.stepsTold = steps.count
	return []policy.Event{steps.event}
}

// dated returns instances with the steady times of what platforms say by the wall
// clock. What has yet to come by it happened when it was first read.
func (p *pass) dated(instances []policy.Instance) []policy.Instance {
	a, scale := p.plan.autoscaler, p.round.scale
	var dated []policy.Instance
	var known dates
	for i := range instances {
		instance := &instances[i]
		before := a.dates[instance.ID]
		next := date{
			started: before.started.of(instance.StartedAt, scale, p.observed),
			changed: before.changed.of(instance.ReadinessChanged, scale, p.observed),
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
		if dated == nil { // the reading is not ours to change
			dated = slices.Clone(instances)
		}
		dated[i].StartedAt, dated[i].ReadinessChanged = next.started.steady, next.changed.steady
	}
	a.dates = known
	if dated == nil {
		return instances
	}
	return dated
}

// dates are the times of instances, by id, as they were understood first: after a
// step back the wall clock shows a time twice. Without a step they hold what was
// of the future alone.
type dates map[string]date

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
	view.Events = slices.Clone(view.Events)
	for i := range view.Events {
		event := &view.Events[i]
		event.First, event.Last = scale.Wall(event.First), scale.Wall(event.Last)
	}
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

func drainShownBy(scale *clock.Scale, op drain.Operation) drain.Operation {
	op.Begun, op.Deadline = scale.Wall(op.Begun), scale.Wall(op.Deadline)
	op.Changed, op.Ended = scale.Wall(op.Changed), scale.Wall(op.Ended)
	op.Instance.Deadline = scale.Wall(op.Instance.Deadline)
	return op
}
