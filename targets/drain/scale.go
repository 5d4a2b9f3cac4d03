package drain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// InstancesProtected is the reason for holding a scale-down for which no instance can be removed.
const InstancesProtected = "InstancesProtected"

// SetReplicas requests n replicas of one target. If hpad chooses the instances, a scale-down
// records the victims and returns; without a drainer it removes them immediately. A scale-up
// first returns draining instances to service, and requests the rest from the inner fleet. If
// only a part of the write succeeds, SetReplicas returns a targets.PartialError.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	if err := f.usable(ctx); err != nil {
		return fmt.Errorf("scale %s to %d replicas: %w", ref, n, err)
	}
	ctx, end, err := f.lease.Begin(ctx)
	if err != nil {
		return fmt.Errorf("scale %s to %d replicas: %w", ref, n, err)
	}
	defer end()
	w := &write{fleet: f, n: n, version: version, reason: reason}
	managed := false
	f.locked(func(tr *tracker) {
		w.options, w.target = tr.options[ref], tr.targets[ref]
		managed = w.options.Victims.Named() || w.target != nil && w.target.active()
		if managed && w.target == nil {
			w.target = newTarget(ref)
			tr.add(w.target, f.clock.Now())
		}
	})
	if !managed {
		if strings.Contains(version, versionMark) {
			return fmt.Errorf("scale %s to %d replicas: %w: draining instances have disappeared or were returned to service", ref, n, targets.ErrConflict)
		}
		return f.inner.SetReplicas(ctx, ref, n, version, reason)
	}
	err = w.do(ctx)
	if err != nil && !w.named {
		err = fmt.Errorf("scale %s to %d replicas: %w", ref, n, err)
	}
	return targets.WithUnknownOutcome(ctx, err)
}

type write struct {
	fleet           *Fleet
	target          *target
	options         Options
	n               int32
	version, reason string
	// reading is a new reading of the inner fleet; its version is empty if the write does not
	// compare versions. current is its adjustment.
	reading targets.Reading
	current adjustment
	// leaving is the number of instances that are being removed. reached is the count that the
	// write has reached even if the rest of it fails.
	leaving, reached int32
	// named reports whether the error is from the inner fleet, and already describes the attempt.
	named bool
}

func (w *write) do(ctx context.Context) error {
	f, t := w.fleet, w.target
	if t.writing.Acquire(ctx, 1) != nil {
		return fmt.Errorf("%w: an earlier write is still in progress: %w", targets.ErrTransient, context.Cause(ctx))
	}
	defer t.writing.Release(1)
	if err := w.read(ctx); err != nil {
		return err
	}
	f.locked(func(*tracker) { w.current = w.adjust() })
	w.leaving, w.reached = int32(len(w.current.leaving)), w.current.spec
	var err error
	switch version := w.current.version(w.reading); {
	case w.version != "" && w.version != version:
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, w.version, version)
	case w.n < 0 || w.reading.Min != nil && w.n < *w.reading.Min || w.reading.Max != nil && w.n > *w.reading.Max:
		return &targets.OutOfRangeError{Min: w.reading.Min, Max: w.reading.Max, Err: fmt.Errorf("%d replicas requested", w.n)}
	case w.n < w.current.spec:
		err = w.shrink(ctx)
	case w.n > w.current.spec:
		err = w.grow(ctx)
	default:
		err = w.saved(f.save(ctx, t))
	}
	if unchanged(err) {
		f.locked(func(*tracker) { t.decide(w.reached) })
	}
	if err != nil && !isPartial(err) && w.reached != w.current.spec {
		err = &targets.PartialError{Reached: w.reached, Err: err}
	}
	return err
}

func (w *write) read(ctx context.Context) error {
	readings, err := w.fleet.inner.Snapshot(ctx, []targets.Ref{w.target.ref})
	w.reading = readingOf(w.target.ref, readings, err)
	if w.version == "" {
		w.reading.Version = ""
	}
	return w.reading.Err
}

func (w *write) adjust() adjustment {
	return w.target.adjust(w.reading, w.fleet.clock.Of(w.reading.Observed))
}

// grow returns draining instances to service, and requests the rest from the inner fleet.
func (w *write) grow(ctx context.Context) error {
	f, t := w.fleet, w.target
	f.locked(func(tr *tracker) {
		t.decide(w.n)
		now := w.adjust()
		tr.some(t, now.surplus, unwanted{"the count increased"}, f.clock.Now())
		returned := w.leaving - int32(len(now.leaving))
		w.leaving, w.reached = w.leaving-returned, w.reached+returned
	})
	f.wakeUp()
	if returned := w.reached - w.current.spec; returned > 0 {
		f.log.Info("draining instances returned to service", zap.Stringer("target", t.ref), zap.Int32("instances", returned))
	}
	unsaved := f.save(ctx, t)
	if unsaved != nil && f.lease != nil {
		return unsaved
	}
	// The platform's count includes the instances that can no longer be returned to service.
	if n := w.n + w.leaving; n != w.reading.SpecReplicas {
		if err := w.set(ctx, n); err != nil {
			return err
		}
	}
	return w.saved(unsaved)
}

// saved returns the result of a write that has reached its count. A full disk does not prevent a
// scale-up: the record is saved later.
func (w *write) saved(unsaved error) error {
	if unsaved != nil {
		return &targets.PartialError{Reached: w.n, Err: unsaved}
	}
	return nil
}

func (w *write) set(ctx context.Context, n int32) error {
	err := w.fleet.inner.SetReplicas(ctx, w.target.ref, n, w.reading.Version, w.reason)
	w.named = err != nil && !isPartial(err)
	return w.staying(err)
}

// staying subtracts the leaving instances from the count in a PartialError.
func (w *write) staying(err error) error {
	if partial, ok := errors.AsType[*targets.PartialError](err); ok {
		return &targets.PartialError{Reached: partial.Reached - w.leaving, Err: partial.Err}
	}
	return err
}

func isPartial(err error) bool {
	_, ok := errors.AsType[*targets.PartialError](err)
	return ok
}

// unchanged reports whether the error shows that the write had no effect.
func unchanged(err error) bool {
	return err != nil && !isPartial(err) && !errors.Is(err, targets.ErrUnknownOutcome)
}

// shrink lowers the count, first by the number of missing instances and then by removing victims.
func (w *write) shrink(ctx context.Context) error {
	if hold := w.reading.Hold; hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	if !w.options.Victims.Named() {
		w.fleet.locked(func(*tracker) { w.target.decide(w.n) })
		return w.set(ctx, w.n+w.leaving)
	}
	fewer := w.current.spec - w.n
	unfilled := min(fewer, max(0, w.reading.SpecReplicas-existing(w.reading)))
	// The victims must be known before the first change.
	victims, err := w.fleet.pick(ctx, w.target.ref, w.options, w.current.apply(w.reading), fewer-unfilled)
	if err != nil {
		return err
	}
	missing := fewer - unfilled - int32(len(victims))
	if missing == fewer {
		return &targets.HeldError{Hold: policy.Hold{Reason: InstancesProtected, Message: "no instance can be removed: all are protected, or their names are unknown"}}
	}
	w.fleet.locked(func(*tracker) { w.target.decide(w.n + missing) })
	err = w.lower(ctx, unfilled, victims)
	if err == nil && missing > 0 {
		return &targets.PartialError{Reached: w.n + missing, Err: fmt.Errorf("%d more instances are protected, or their names are unknown", missing)}
	}
	return err
}

func (w *write) lower(ctx context.Context, unfilled int32, victims []Victim) error {
	if unfilled > 0 {
		if err := w.set(ctx, w.reading.SpecReplicas-unfilled); err != nil {
			return err
		}
		w.reached -= unfilled
		if err := w.read(ctx); err != nil { // this also returns the new version
			return err
		}
	}
	switch {
	case len(victims) == 0:
		return nil
	case w.options.Drainer == nil:
		return w.remove(ctx, victims)
	default:
		return w.drain(ctx, victims)
	}
}

// remove removes the victims immediately. They are recorded first, so that the same instances are
// removed again if the outcome is unknown. If no other process shares the fleet, a store that
// cannot be written does not prevent a scale-down.
func (w *write) remove(ctx context.Context, victims []Victim) error {
	f, t, now := w.fleet, w.target, w.fleet.clock.Now()
	operations := w.begin(victims, now)
	ids, instances := make([]string, len(victims)), make([]string, len(victims))
	for i := range operations {
		operations[i], _ = step(operations[i], removing{}, now)
		ids[i], instances[i] = operations[i].ID, operations[i].Instance.ID
	}
	if err := f.save(ctx, t, operations...); err != nil {
		if f.lease != nil {
			return err
		}
		f.log.Warn("recording the removal failed", zap.Stringer("target", t.ref), zap.Error(err))
		f.locked(func(tr *tracker) {
			tr.begin(t, operations, now)
			t.changes++
		})
	}
	err := targets.ErrUnknownOutcome // kept if the call panics
	defer func() {
		open := errors.Is(err, targets.ErrUnknownOutcome) || unchanged(err) && ctx.Err() != nil
		f.locked(func(tr *tracker) {
			if open {
				tr.some(t, ids, removed{targets.WithUnknownOutcome(ctx, err)}, f.clock.Now())
			} else {
				t.forget(ids)
			}
		})
		f.wakeUp()
	}()
	err = w.staying(f.inner.Remove(ctx, t.ref, instances, w.reading.Version, w.reason))
	return err
}

// drain records the victims, and then starts their drains.
func (w *write) drain(ctx context.Context, victims []Victim) error {
	f, operations := w.fleet, w.begin(victims, w.fleet.clock.Now())
	if err := f.save(ctx, w.target, operations...); err != nil {
		return err
	}
	for _, op := range operations {
		f.log.Info("drain started", zap.Stringer("target", w.target.ref), zap.String("instance", op.Instance.ID),
			zap.String("why", op.Reason), zap.Time("deadline", f.clock.Scale().Wall(op.Deadline)))
	}
	f.wakeUp()
	return nil
}

func (w *write) begin(victims []Victim, now time.Time) []Operation {
	instances := map[string]Instance{}
	for i := range w.reading.Instances {
		instances[w.reading.Instances[i].ID] = instanceOf(w.target.ref, w.reading, i)
	}
	operations := make([]Operation, len(victims))
	for i, victim := range victims {
		op := Operation{
			ID: strings.ToLower(rand.Text()), Instance: instances[victim.ID], Reason: victim.Reason, Decision: w.reason,
			Started: now, Deadline: now.Add(w.options.Deadline), State: Waiting, Changed: now,
		}
		op.Instance.Target, op.Instance.ID, op.Instance.Deadline = w.target.ref, victim.ID, op.Deadline
		operations[i] = op
	}
	return operations
}
