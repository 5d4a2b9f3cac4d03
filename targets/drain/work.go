package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

const (
	// tickInterval is the interval of passes while there are active operations; otherwise the
	// background work sleeps.
	tickInterval = 250 * time.Millisecond
	// platformTimeout limits one call of the inner fleet or the store.
	platformTimeout = 30 * time.Second
)

// run performs the background work until Close is called.
func (f *Fleet) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.work.Done():
			return
		case <-timer.C:
		case <-f.wake:
		}
		busy := true
		if err := catchPanic(func() error { busy = f.pass(f.clock.Now()); return nil }); err != nil {
			f.log.Error("drain pass failed", zap.Error(err))
		}
		timer.Stop()
		if busy {
			timer.Reset(tickInterval)
		}
	}
}

func (f *Fleet) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// pass starts the due calls, and reports whether there is more to do.
func (f *Fleet) pass(now time.Time) (busy bool) {
	if f.load(f.work) != nil { // calls of Snapshot return the error
		return true
	}
	_, end, err := f.lease.Begin(f.work)
	if err != nil {
		return true
	}
	end()
	var readings []targets.Ref
	var unsaved []*target
	f.locked(func(tr *tracker) { readings, unsaved, busy = tr.tick(now) })
	if len(readings) > 0 {
		f.running.Go(func() { f.readTargets(readings) })
	}
	for _, t := range unsaved {
		f.saveAgain(t, now)
	}
	return busy
}

func (f *Fleet) saveAgain(t *target, now time.Time) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	err := f.save(ctx, t)
	f.locked(func(*tracker) {
		if err == nil {
			t.saveAt = time.Time{}
			return
		}
		if t.saveAt.IsZero() && f.work.Err() == nil {
			f.log.Warn("recording drains failed", zap.Stringer("target", t.ref), zap.Error(err))
		}
		t.saveAt = now.Add(defaultInterval)
	})
}

func (f *Fleet) call(t *target, op Operation) {
	ctx, cancel := context.WithTimeout(f.work, callTimeout)
	t.calls[op.Instance.ID] = cancel
	drainer, instance := t.options.Drainer, op.Instance
	instance.Deadline = f.clock.Scale().Wall(op.Deadline)
	f.running.Go(func() {
		defer cancel()
		e := returned{state: op.State}
		leaseEnded := false
		e.err = catchPanic(func() error {
			ctx, end, err := f.lease.Begin(ctx)
			if err != nil {
				leaseEnded = true
				return err
			}
			defer end()
			e.drained, err = perform(ctx, drainer, op.State, instance)
			leaseEnded = errors.Is(context.Cause(ctx), targets.ErrLeaseEnded)
			return err
		})
		if e.err != nil && (leaseEnded || f.work.Err() != nil) {
			e.state = Ended // a canceled call has no result
		}
		f.locked(func(tr *tracker) { tr.returned(t, op, e, f.clock.Now()) })
		f.wakeUp()
	})
}

// perform makes one call of a drainer; drained reports whether no work remains.
func perform(ctx context.Context, drainer Drainer, state State, instance Instance) (drained bool, err error) {
	switch state {
	case Waiting:
		return false, drainer.Begin(ctx, instance)
	case Draining:
		return drainer.Drained(ctx, instance)
	case Undoing:
		return false, drainer.Undo(ctx, instance)
	default:
		return false, drainer.Finish(ctx, instance)
	}
}

// readTargets reads targets with active operations, and starts the removals that are due.
func (f *Fleet) readTargets(refs []targets.Ref) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	var readings map[targets.Ref]targets.Reading
	err := catchPanic(func() (err error) {
		readings, err = f.inner.Snapshot(ctx, refs)
		return err
	})
	f.locked(func(tr *tracker) {
		tr.reading = false
		if f.work.Err() != nil {
			return
		}
		now := f.clock.Now()
		tr.readAt = clock.Later(tr.readAt, now.Add(waitOf(err)))
		for _, ref := range refs {
			reading := readingOf(ref, readings, err)
			if r := tr.read(tr.targets[ref], reading, f.clock.Of(reading.Observed), now); r != nil {
				f.running.Go(func() { f.remove(r) })
			}
		}
	})
	f.wakeUp()
}

func readingOf(ref targets.Ref, readings map[targets.Ref]targets.Reading, err error) targets.Reading {
	reading, ok := readings[ref]
	switch {
	case err != nil:
		return targets.Reading{Err: err}
	case !ok:
		return targets.Reading{Err: fmt.Errorf("%w: %s was not read", targets.ErrTransient, ref)}
	}
	return reading
}

// remove performs a removal. Close waits for it, so that its outcome is recorded.
func (f *Fleet) remove(r *removal) {
	ctx, cancel := context.WithTimeout(f.writes, platformTimeout)
	defer cancel()
	err := f.save(ctx, r.target)
	if err == nil {
		var end context.CancelFunc
		if ctx, end, err = f.lease.Begin(ctx); err == nil {
			defer end()
		}
	}
	if err != nil {
		f.locked(func(tr *tracker) { tr.some(r.target, r.operations, withdrawn{err}, f.clock.Now()) })
	} else {
		f.log.Info("removing drained instances", zap.Stringer("target", r.target.ref), zap.Strings("instances", r.ids))
		err = catchPanic(func() error { return f.inner.Remove(ctx, r.target.ref, r.ids, r.version, r.reason) })
		err = targets.WithUnknownOutcome(ctx, err)
	}
	f.locked(func(tr *tracker) { tr.settle(r, err, f.clock.Now()) })
	f.wakeUp()
}

// catchPanic calls f, and converts a panic to an ErrUnknownOutcome.
func catchPanic(f func() error) error {
	err := guard.Call(f)
	if caught, panicked := errors.AsType[*guard.Panic](err); panicked {
		return fmt.Errorf("%w: %w\n%s", targets.ErrUnknownOutcome, caught, caught.Stack)
	}
	return err
}
