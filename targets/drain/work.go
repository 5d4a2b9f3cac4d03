package drain

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
)

const (
	// tickInterval is how often operations under way are looked at; without any the
	// work sleeps.
	tickInterval = 250 * time.Millisecond
	// platformTimeout bounds one call of the inner fleet or the store.
	platformTimeout = 30 * time.Second
)

// run works until the fleet is closed.
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
		if err := guard(func() error { busy = f.pass(f.clock.Now()); return nil }); err != nil {
			f.log.Error("the work on drains failed", zap.Error(err))
		}
		timer.Stop()
		if busy {
			timer.Reset(tickInterval)
		}
	}
}

// poke makes the work look again at once.
func (f *Fleet) poke() {
	select {
	case f.wake <- struct{}{}:
	default: // it will anyhow
	}
}

// pass begins whatever is due, and reports whether anything is under way.
func (f *Fleet) pass(now time.Time) (busy bool) {
	if err := f.load(f.work); err != nil {
		f.log.Warn("drains under way are not known", zap.Error(err))
		return true
	}
	var d due
	f.locked(func(b *book) { d = b.tick(now) })
	if len(d.readings) > 0 {
		f.running.Go(func() { f.look(d.readings) })
	}
	for _, t := range d.removals {
		f.running.Go(func() { f.remove(t) })
	}
	for _, t := range d.unsaved {
		f.saveAgain(t, now)
	}
	return d.busy
}

// saveAgain records what happened since the last time.
func (f *Fleet) saveAgain(t *target, now time.Time) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	err := f.save(ctx, t)
	f.locked(func(*book) {
		if err == nil {
			t.saveAt = time.Time{}
			return
		}
		if t.saveAt.IsZero() && f.work.Err() == nil {
			f.log.Warn("drains are not recorded; it is tried again", zap.Stringer("target", t.ref), zap.Error(err))
		}
		t.saveAt = now.Add(DefaultInterval)
	})
}

// call makes the call of the drainer that an operation's state asks for.
func (f *Fleet) call(t *target, op operation) {
	ctx, cancel := context.WithTimeout(f.work, callTimeout)
	t.calls[op.Instance.ID].cancel = cancel
	drainer, instance := t.options.Drainer, op.Instance
	instance.Deadline = f.clock.Scale().Wall(op.Deadline)
	f.running.Go(func() {
		defer cancel()
		e := returned{state: op.State}
		e.err = guard(func() (err error) {
			e.drained, err = perform(ctx, drainer, op.State, instance)
			return err
		})
		f.locked(func(b *book) {
			b.release(t, op.Instance.ID)
			if e.err == nil || f.work.Err() == nil {
				e.interval = t.options.interval()
				b.all(t, e, f.clock.Now(), op.ID)
			}
		})
		f.poke()
	})
}

// perform makes one call of a drainer; drained means that its work is done.
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

// look reads the targets that have operations under way.
func (f *Fleet) look(refs []targets.Ref) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	var readings map[targets.Ref]targets.Reading
	err := guard(func() (err error) {
		readings, err = f.inner.Snapshot(ctx, refs)
		return err
	})
	f.locked(func(b *book) {
		now := f.clock.Now()
		b.reading = false
		if err != nil {
			b.readAt = later(b.readAt, now.Add(waitOf(err)))
		}
		for ref, reading := range readings {
			if t := b.targets[ref]; t != nil {
				b.see(t, reading, f.clock.Of(reading.Observed), now)
			}
		}
	})
	f.poke()
}

// read reads one target of the inner fleet.
func (f *Fleet) read(ctx context.Context, ref targets.Ref) (reading targets.Reading, err error) {
	readings, err := f.inner.Snapshot(ctx, []targets.Ref{ref})
	if err != nil {
		return targets.Reading{}, err
	}
	reading, ok := readings[ref]
	if !ok {
		return targets.Reading{}, fmt.Errorf("%w: %s was not read", targets.ErrTransient, ref)
	}
	return reading, reading.Err
}

// remove asks the platform to remove all drained instances of a target, in one
// call, if the count that is wanted still asks for it.
func (f *Fleet) remove(t *target) {
	ids, err := f.removeDrained(t)
	if err != nil && f.work.Err() == nil {
		f.log.Warn("drained instances are not removed", zap.Stringer("target", t.ref), zap.Error(err))
	}
	f.locked(func(b *book) { b.settle(t, ids, err, f.clock.Now()) })
	f.poke()
}

// removeDrained returns the ids of the operations whose instances the platform was
// asked to remove, and how that went.
func (f *Fleet) removeDrained(t *target) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	var reading targets.Reading
	if err := guard(func() (err error) {
		reading, err = f.read(ctx, t.ref)
		return err
	}); err != nil {
		return nil, err
	}
	// From here on an end of the work is waited with: who is recorded as being
	// removed should be.
	ctx, cancelWrite := context.WithTimeout(f.writes, platformTimeout)
	defer cancelWrite()
	var chosen []operation
	f.locked(func(b *book) {
		now, observed := f.clock.Now(), f.clock.Of(reading.Observed)
		if f.life.Ended() {
			return
		}
		if b.see(t, reading, observed, now); reading.Hold == nil {
			chosen = b.choose(t, reading, observed, now)
		}
	})
	if reading.Hold != nil {
		return nil, &targets.HeldError{Hold: *reading.Hold}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	var instances []string
	for _, op := range chosen {
		ids, instances = append(ids, op.ID), append(instances, op.Instance.ID)
	}
	if err := f.save(ctx, t); err != nil {
		f.locked(func(b *book) { b.all(t, withdrawn{err}, f.clock.Now(), ids...) })
		return nil, err
	}
	f.log.Info("drained instances are removed", zap.Stringer("target", t.ref), zap.Strings("instances", instances))
	panicked := true
	err = guard(func() error {
		err := f.inner.Remove(ctx, t.ref, instances, reading.Version, chosen[len(chosen)-1].Decision)
		panicked = false
		return err
	})
	if panicked && !errors.Is(err, targets.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return ids, targets.CutOff(ctx, err)
}

// guard calls f and returns its panic as an error.
func guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	return f()
}
