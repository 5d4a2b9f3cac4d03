package drain

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
)

// How the work goes on.
const (
	// tick is how often the work looks at operations under way; without any it sleeps.
	tick = 250 * time.Millisecond
	// callTimeout bounds one call of a drainer, platformTimeout one of the inner
	// fleet.
	callTimeout     = time.Minute
	platformTimeout = 30 * time.Second
	// longestPause is the most between two tries, and between two readings.
	longestPause = time.Minute
	// undoPatience is how long the work of an instance is tried to be given back,
	// finishTries how often clearing up is tried.
	undoPatience = 24 * time.Hour
	finishTries  = 10
)

// call is one call of a drainer under way.
type call struct {
	cancel context.CancelFunc
	begun  time.Time
}

// run works until the fleet is closed.
func (f *Fleet) run() {
	clock := time.NewTimer(0)
	defer clock.Stop()
	for {
		select {
		case <-f.work.Done():
			return
		case <-clock.C:
		case <-f.wake:
		}
		busy := true
		if err := guard(func() error { busy = f.pass(f.clock.Now()); return nil }); err != nil {
			f.log.Error("the work on drains failed", zap.Error(err))
		}
		clock.Stop()
		if busy {
			clock.Reset(tick)
		}
	}
}

// pass begins whatever is due, and says whether anything is under way.
func (f *Fleet) pass(now time.Time) (busy bool) {
	if err := f.load(f.work); err != nil {
		f.log.Warn("drains under way are not known", zap.Error(err))
		return true
	}
	var unsaved []*target
	f.mu.Lock()
	pause := longestPause
	var refs []targets.Ref
	for ref, t := range f.targets {
		if t.active() {
			busy = true
			if options, ok := f.workOptions(t); ok {
				refs = append(refs, ref)
				pause = min(pause, options.interval())
				f.advance(t, options, now)
			} else {
				t.abandon(now)
			}
		}
		if t.changes != t.saved {
			busy = true
			if !now.Before(t.saveAt) {
				unsaved = append(unsaved, t)
			}
		}
	}
	if len(refs) > 0 && !f.reading && !now.Before(f.due) {
		f.reading = true
		f.due = now.Add(pause)
		f.running.Go(func() { f.look(refs) })
	}
	f.mu.Unlock()
	for _, t := range unsaved {
		f.saveAgain(t, now)
	}
	return busy
}

// workOptions answers the options that a target's operations go on under; false
// when it is not configured any more. The caller holds the lock.
func (f *Fleet) workOptions(t *target) (Options, bool) {
	if t.fallback != nil {
		return *t.fallback, true
	}
	options, ok := f.options[t.ref]
	return options, ok
}

// abandon ends what nobody has answered for since long after its deadline. The
// caller holds the lock.
func (t *target) abandon(now time.Time) {
	for _, op := range t.operations {
		if op.State != Ended && now.Sub(op.Deadline) > endedKept {
			op.Outcome, op.Why = Failed, "no autoscaler has the target any more"
			t.end(op, now)
		}
	}
}

// saveAgain records what happened since the last time.
func (f *Fleet) saveAgain(t *target, now time.Time) {
	ctx, cancel := context.WithTimeout(f.work, platformTimeout)
	defer cancel()
	err := f.save(ctx, t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		t.saveAt = time.Time{}
		return
	}
	if t.saveAt.IsZero() && f.work.Err() == nil {
		f.log.Warn("drains are not recorded; it is tried again", zap.Stringer("target", t.ref), zap.Error(err))
	}
	t.saveAt = now.Add(DefaultInterval)
}

// advance brings the operations of one target on. The caller holds the lock.
func (f *Fleet) advance(t *target, options Options, now time.Time) {
	for _, op := range t.operations {
		t.pass(op, options, now)
		if options.Drainer != nil && called(op.State) && t.calls[op.Instance.ID] == nil && !now.Before(t.paces[op.ID].next) {
			f.call(t, op, options, now)
		}
		if c := t.calls[op.Instance.ID]; c != nil && now.Sub(c.begun) > callTimeout+closePatience {
			t.note(op, fmt.Errorf("the drainer has not returned within %v", callTimeout))
		}
	}
	if t.removing || now.Before(t.retry) || !t.ready(now) {
		return
	}
	select {
	case f.removals <- struct{}{}:
		t.removing = true
		f.running.Go(func() {
			defer func() { <-f.removals }()
			f.remove(t)
		})
	default: // the next tick
	}
}

// called says that a drainer has something to do in a state.
func called(state State) bool {
	return state == Waiting || state == Draining || state == Undoing || state == Finishing
}

// pass takes an operation on where that needs no call. The caller holds the lock.
func (t *target) pass(op *Operation, options Options, now time.Time) {
	p := t.paces[op.ID]
	switch op.State {
	case Waiting, Draining:
		switch {
		case options.Drainer == nil:
			t.move(op, Drained, now)
		case now.Before(op.Deadline):
		case options.Expiry == Undo:
			why := "it was not drained by its deadline"
			if op.Error != "" {
				why += ": " + op.Error
			}
			t.takeBack([]*Operation{op}, Failed, why, now)
		default:
			if op.Error == "" {
				op.Error = "it was not drained by its deadline"
			}
			if c := t.calls[op.Instance.ID]; c != nil {
				c.cancel()
			}
			t.move(op, Drained, now)
		}
	case Undoing:
		if options.Drainer == nil || now.Sub(op.Changed) > undoPatience {
			t.end(op, now)
		}
	case Finishing:
		if options.Drainer == nil || p.failures >= finishTries {
			t.end(op, now)
		}
	}
}

// note keeps an error, if it is another one. The caller holds the lock.
func (t *target) note(op *Operation, err error) {
	if text := err.Error(); op.Error != text {
		op.Error = text
		t.changes++
	}
}

// clear forgets the last error. The caller holds the lock.
func (t *target) clear(op *Operation) {
	if op.Error != "" {
		op.Error = ""
		t.changes++
	}
}

// call makes the call of the drainer that an operation's state asks for, when
// there is room for it. The caller holds the lock.
func (f *Fleet) call(t *target, op *Operation, options Options, now time.Time) {
	select {
	case f.slots <- struct{}{}:
	default:
		return // the next tick
	}
	ctx, cancel := context.WithTimeout(f.work, callTimeout)
	t.calls[op.Instance.ID] = &call{cancel: cancel, begun: now}
	t.paces[op.ID].touched = true
	state, instance := op.State, op.Instance
	instance.Deadline = f.clock.Scale().Wall(op.Deadline)
	f.running.Go(func() {
		defer func() { <-f.slots }()
		defer cancel()
		drained, err := perform(ctx, options.Drainer, state, instance)
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(t.calls, instance.ID)
		if op.State == state && (err == nil || f.work.Err() == nil) {
			f.answer(t, op, options, drained, err)
		}
		f.poke()
	})
}

// perform makes one call of a drainer; drained says that its work is done.
func perform(ctx context.Context, drainer Drainer, state State, instance Instance) (drained bool, err error) {
	err = guard(func() error {
		switch state {
		case Waiting:
			return drainer.Begin(ctx, instance)
		case Draining:
			drained, err = drainer.Drained(ctx, instance)
			return err
		case Undoing:
			return drainer.Undo(ctx, instance)
		default:
			return drainer.Finish(ctx, instance)
		}
	})
	return drained && err == nil, err
}

// answer takes an operation on by what its drainer answered. The caller holds the
// lock.
func (f *Fleet) answer(t *target, op *Operation, options Options, drained bool, err error) {
	now, p := f.clock.Now(), t.paces[op.ID]
	log := f.log.With(zap.Stringer("target", t.ref), zap.String("instance", op.Instance.ID))
	if err != nil {
		if p.failures == 0 {
			log.Warn("a drain does not go on; it is tried again", zap.String("state", string(op.State)), zap.Error(err))
		}
		t.note(op, err)
		p.next = now.Add(pause(options.interval(), p.failures))
		p.failures++
		return
	}
	t.clear(op)
	p.failures = 0
	switch op.State {
	case Waiting:
		t.move(op, Draining, now)
	case Draining:
		if !drained {
			p.next = now.Add(options.interval())
			return
		}
		log.Info("instance is drained", zap.Duration("took", now.Sub(op.Begun)))
		t.move(op, Drained, now)
	case Undoing:
		log.Info("instance was taken back", zap.String("why", op.Why))
		t.end(op, now)
	case Finishing:
		t.end(op, now)
	}
}

// pause is how long to wait after so many failures before this one.
func pause(first time.Duration, failures int) time.Duration {
	const most = 6 // doublings: enough for any interval worth its name
	return min(first<<min(failures, most), max(first, longestPause))
}

// guard calls f and answers its panic as an error.
func guard(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	return f()
}
