package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
)

// How removals go on.
const (
	// linger is how long what is drained waits for others that are about to be.
	linger = time.Second
	// removalTries is how often the platform is asked to remove an instance.
	removalTries = 3
	// settleTime is how long the platform may take to show that it heard of a removal
	// whose answer was lost; terminationTime how long an instance may be shown as if
	// nothing had happened after the platform accepted its removal.
	settleTime      = 30 * time.Second
	terminationTime = 5 * time.Minute
	// absentTime is how long an instance must be missing in all readings to be gone:
	// one reading can be wrong.
	absentTime = 2 * time.Second
	// conflicts is how often a removal that lost against another write is tried again
	// without a pause.
	conflicts = 5
)

// ready says that drained instances can be removed: others of the target are not
// about to join them, or were waited for. The caller holds the lock.
func (t *target) ready(now time.Time) bool {
	found, waited, joining := false, false, false
	for _, op := range t.operations {
		switch op.State {
		case Drained:
			found = true
			waited = waited || now.Sub(op.Changed) >= linger
		case Waiting, Draining:
			joining = joining || t.calls[op.Instance.ID] != nil || !now.Before(t.paces[op.ID].next)
		}
	}
	return found && (waited || !joining)
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
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reading = false
	if err != nil {
		f.due = later(f.due, f.clock.Now().Add(waitOf(err)))
		return
	}
	for ref, reading := range readings {
		if t := f.targets[ref]; t != nil {
			f.see(t, reading, f.clock.Now())
		}
	}
	f.poke()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// waitOf is how long the platform wants to be left alone after an error.
func waitOf(err error) time.Duration {
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled.RetryAfter
	}
	return 0
}

// see takes operations on by a reading of the platform. The caller holds the lock.
func (f *Fleet) see(t *target, reading targets.Reading, now time.Time) {
	if reading.Err != nil {
		if errors.Is(reading.Err, targets.ErrTargetNotFound) {
			t.lose(reading.Err, now)
		}
		return
	}
	shown := map[string]bool{}
	protected := map[string]bool{}
	for i := range reading.Instances {
		id := reading.Instances[i].ID
		shown[id] = !reading.Instances[i].Deleting
		protected[id] = reading.Locations != nil && reading.Locations[i].Protected
	}
	observed := f.clock.Of(reading.Observed)
	for _, op := range t.operations {
		if op.State == Ended || observed.Before(op.Changed) {
			continue
		}
		staying, there := shown[op.Instance.ID]
		if !there {
			f.missing(t, op, now)
			continue
		}
		t.paces[op.ID].absent = time.Time{}
		if staying {
			t.stays(op, protected[op.Instance.ID], observed, now)
		} else {
			t.goes(op, now)
		}
	}
	t.takeBack(t.tally(reading).surplus, Undone, "somebody else lowered the count", now)
}

// lose ends operations of a target that is gone, once their time is over. The
// caller holds the lock.
func (t *target) lose(err error, now time.Time) {
	for _, op := range t.operations {
		if op.leaving() && now.After(op.Deadline) {
			t.note(op, err)
			t.takeBack([]*Operation{op}, Failed, "the target is gone: "+err.Error(), now)
		}
	}
}

// asking says that the platform is being asked to remove an instance, and has not
// answered yet. The caller holds the lock.
func (t *target) asking(op *Operation) bool {
	return op.State == Removing && (t.removing || t.paces[op.ID].direct)
}

// missing notes that an instance is not there, and that it is gone when that lasts.
// The caller holds the lock.
func (f *Fleet) missing(t *target, op *Operation, now time.Time) {
	p := t.paces[op.ID]
	if p.absent.IsZero() {
		p.absent = now
	}
	if now.Sub(p.absent) < absentTime || op.State == Finishing || t.asking(op) {
		return
	}
	op.Outcome = Vanished
	if op.Attempts > 0 {
		op.Outcome = Terminated
	}
	t.clear(op)
	f.log.Info("instance is gone", zap.Stringer("target", t.ref), zap.String("instance", op.Instance.ID), zap.String("outcome", string(op.Outcome)))
	if !p.touched {
		t.end(op, now)
		return
	}
	t.move(op, Finishing, now)
}

// goes takes on an operation whose instance the platform is removing. The caller
// holds the lock.
func (t *target) goes(op *Operation, now time.Time) {
	switch op.State {
	case Waiting, Draining, Drained: // somebody else took it
		if c := t.calls[op.Instance.ID]; c != nil {
			c.cancel()
		}
		t.move(op, Terminating, now)
	case Removing:
		if !t.asking(op) {
			t.clear(op)
			t.move(op, Terminating, now)
		}
	}
}

// stays takes on an operation whose instance the platform shows as if nothing had
// happened. The caller holds the lock.
func (t *target) stays(op *Operation, protected bool, observed, now time.Time) {
	switch op.State {
	case Drained:
		if protected {
			t.takeBack([]*Operation{op}, Failed, "the platform protects it", now)
		}
	case Removing:
		asked := t.paces[op.ID].asked // zero after a restart
		switch since := observed.Sub(later(op.Changed, asked)); {
		case t.asking(op) || since < 0:
		case op.Why != "": // the platform refused, and it really is there
			t.takeBack([]*Operation{op}, Failed, op.Why, now)
		case since >= settleTime:
			t.again(op, "the platform was asked to remove it, and it is still there", now)
		}
	case Terminating:
		if now.Sub(op.Changed) >= terminationTime {
			t.takeBack([]*Operation{op}, Failed, "the platform accepted its removal, and it is still there", now)
		}
	}
}

// again lets a removal that did nothing be tried again, or gives it up. The caller
// holds the lock.
func (t *target) again(op *Operation, why string, now time.Time) {
	if op.Attempts < removalTries {
		t.move(op, Drained, now)
		return
	}
	if op.Error != "" {
		why += ": " + op.Error
	}
	t.takeBack([]*Operation{op}, Failed, why, now)
}

// remove asks the platform to remove all drained instances of a target, in one
// call, if the count that is wanted still asks for it.
func (f *Fleet) remove(t *target) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	f.mu.Lock()
	options, _ := f.workOptions(t)
	f.mu.Unlock()
	var reading targets.Reading
	err := guard(func() (err error) {
		reading, err = f.read(ctx, t.ref)
		return err
	})
	var removed []*Operation
	if err == nil {
		// From here on an end of the work is waited with: who is recorded as being
		// removed should be.
		ctx, cancel := context.WithTimeout(f.writes, platformTimeout)
		defer cancel()
		if removed, err = f.prepare(ctx, t, reading); len(removed) > 0 {
			err = f.send(ctx, t, removed, reading.Version)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.removing = false
	f.settle(t, removed, err, options, f.clock.Now())
	f.poke()
}

// prepare answers the operations whose instances are to be removed now, which are
// recorded as Removing.
func (f *Fleet) prepare(ctx context.Context, t *target, reading targets.Reading) ([]*Operation, error) {
	f.mu.Lock()
	now := f.clock.Now()
	if f.closed {
		f.mu.Unlock()
		return nil, nil
	}
	f.see(t, reading, now)
	if reading.Hold != nil {
		f.mu.Unlock()
		return nil, &targets.HeldError{Hold: *reading.Hold}
	}
	var chosen []*Operation
	for id, op := range t.tally(reading).leaving {
		if op.State == Drained && op.Instance.ID == id {
			chosen = append(chosen, op)
		}
	}
	for _, op := range chosen {
		t.move(op, Removing, now)
		op.Attempts++
	}
	f.mu.Unlock()
	if len(chosen) == 0 {
		return nil, nil
	}
	if err := f.save(ctx, t); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, op := range chosen {
			op.Attempts--
			t.move(op, Drained, now)
			t.note(op, err)
		}
		return nil, err
	}
	return chosen, nil
}

// send asks the platform to remove instances.
func (f *Fleet) send(ctx context.Context, t *target, removed []*Operation, version string) error {
	ids := make([]string, len(removed))
	newest := removed[0]
	f.mu.Lock()
	for i, op := range removed {
		ids[i] = op.Instance.ID
		if byAge(newest, op) < 0 {
			newest = op
		}
	}
	reason := newest.Decision
	f.mu.Unlock()
	f.log.Info("drained instances are removed", zap.Stringer("target", t.ref), zap.Strings("instances", ids))
	panicked := true
	err := guard(func() error {
		err := f.inner.Remove(ctx, t.ref, ids, version, reason)
		panicked = false
		return err
	})
	if err != nil && (panicked || ctx.Err() != nil) && !errors.Is(err, targets.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", targets.ErrUnknownOutcome, err)
	}
	return err
}

// settle takes operations on by what the platform answered. The caller holds the
// lock.
func (f *Fleet) settle(t *target, removed []*Operation, err error, options Options, now time.Time) {
	if err == nil {
		t.refused, t.retry = 0, time.Time{}
		for _, op := range removed {
			t.clear(op)
			t.move(op, Terminating, now)
		}
		if len(removed) == 0 {
			t.retry = now.Add(options.interval())
		}
		return
	}
	if f.work.Err() == nil {
		f.log.Warn("drained instances are not removed", zap.Stringer("target", t.ref), zap.Error(err))
	}
	t.retry = now.Add(max(pause(options.interval(), t.refused), waitOf(err)))
	t.refused++
	if errors.Is(err, targets.ErrConflict) && t.refused <= conflicts {
		t.retry = now.Add(tick)
	}
	f.due = now // what became of it is to be read
	for _, op := range t.operations {
		if op.State == Drained {
			t.note(op, err)
		}
	}
	for _, op := range removed {
		t.paces[op.ID].asked = now
		t.note(op, err)
		switch {
		case errors.Is(err, targets.ErrUnknownOutcome) || isPartial(err):
			// Readings tell.
		case errors.Is(err, targets.ErrHeld) || errors.Is(err, targets.ErrThrottled) || errors.Is(err, targets.ErrConflict):
			op.Attempts--
			t.move(op, Drained, now)
		case errors.Is(err, targets.ErrTransient):
			t.again(op, "the platform cannot be asked to remove it", now)
		default:
			op.Why = "the platform refuses to remove it: " + err.Error()
			t.changes++
		}
	}
}
