package drain

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

const (
	// callTimeout limits one call of a drainer.
	callTimeout = time.Minute
	// longestPause limits the time between retries, and between readings.
	longestPause = time.Minute
	// undoPatience is the time limit for undoing a drain. finishTries and removalTries limit the
	// attempts to clean up and to remove.
	undoPatience = 24 * time.Hour
	finishTries  = 10
	removalTries = 3
	// settleTime is the time after which a removal with an unknown outcome is considered failed.
	// terminationTime is the corresponding time for an accepted removal.
	settleTime      = 30 * time.Second
	terminationTime = 5 * time.Minute
	// missingTime is the time for which all readings must lack an instance before it is considered
	// gone, because a single reading can be wrong.
	missingTime = 2 * time.Second
)

// effect is an action that a step requests. level, message and fields describe a log entry.
type effect struct {
	action  action
	level   zapcore.Level
	message string
	fields  []zap.Field
}

type action string

const (
	doSave   action = "save"   // record the operation
	doCall   action = "call"   // call the drainer for the operation's state
	doCancel action = "cancel" // cancel the drainer call for the instance
	doReport action = "report" // log an entry
)

type event interface{ apply(s *transition) }

// step returns the operation after an event, and the effects. An ended operation does not change.
func step(o Operation, e event, now time.Time) (Operation, []effect) {
	s := transition{Operation: o, now: now}
	if o.State != Ended {
		e.apply(&s)
	}
	return s.Operation, s.effects
}

type transition struct {
	Operation
	now     time.Time
	effects []effect
}

func (s *transition) do(a action) {
	if !slices.ContainsFunc(s.effects, func(e effect) bool { return e.action == a }) {
		s.effects = append(s.effects, effect{action: a})
	}
}

func (s *transition) report(level zapcore.Level, message string, fields ...zap.Field) {
	s.effects = append(s.effects, effect{doReport, level, message, fields})
}

func (s *transition) move(state State) {
	s.State, s.Changed = state, s.now
	s.next, s.failures, s.missingSince = time.Time{}, 0, time.Time{}
	s.do(doSave)
}

func (s *transition) end() {
	s.move(Ended)
	s.Ended = s.now
}

// fail records an error; "" clears it.
func (s *transition) fail(text string) {
	if s.Error != text {
		s.Error = text
		s.do(doSave)
	}
}

// takeBack returns the instance to service and undoes its drain.
func (s *transition) takeBack(outcome Outcome, why string) {
	s.Why, s.Outcome = why, outcome
	s.do(doCancel)
	if s.drainerCalled {
		s.move(Undoing)
	} else {
		s.end()
	}
}

// restarted is the event that another process started the operation, and may have called the
// drainer.
type restarted struct{}

func (restarted) apply(s *transition) { s.drainerCalled = true }

// tick is the event that time has passed.
type tick struct {
	// options are the current options of a configured target.
	options    Options
	configured bool
	// busy reports whether the drainer cannot currently be called for the instance.
	busy bool
}

func (e tick) apply(s *transition) {
	if !e.configured {
		if s.now.Sub(s.Deadline) > endedKept {
			s.Outcome, s.Why = Failed, "the target has no autoscaler"
			s.end()
		}
		return
	}
	e.pass(s)
	if e.options.Drainer != nil && s.called() && !e.busy && !s.now.Before(s.next) {
		s.drainerCalled = true
		s.do(doCall)
	}
}

// pass makes the state changes that do not require a call.
func (e tick) pass(s *transition) {
	const late = "it was not drained before its deadline"
	undrained := e.options.Drainer == nil
	switch s.State {
	case Waiting, Draining:
		switch {
		case undrained:
			s.move(Drained)
		case s.now.Before(s.Deadline):
		case e.options.Expiry == Undo:
			s.takeBack(Failed, because(late, s.Error))
		default:
			s.fail(cmp.Or(s.Error, late))
			s.do(doCancel)
			s.move(Drained)
		}
	case Undoing:
		if undrained || s.now.Sub(s.Changed) > undoPatience {
			s.end()
		}
	case Finishing:
		if undrained || s.failures >= finishTries {
			s.end()
		}
	}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// called reports whether the operation's state requires a drainer call.
func (o *Operation) called() bool {
	return o.State == Waiting || o.State == Draining || o.State == Undoing || o.State == Finishing
}

// returned is the event that a call of the drainer returned.
type returned struct {
	state   State
	drained bool
	err     error
	// interval is the pause before the next call.
	interval time.Duration
}

func (e returned) apply(s *transition) {
	if s.State != e.state {
		return
	}
	if e.err != nil {
		if s.failures == 0 {
			s.report(zap.WarnLevel, "drainer call failed", zap.String("state", string(s.State)), zap.Error(e.err))
		}
		s.fail(e.err.Error())
		s.next = s.now.Add(pause(e.interval, s.failures))
		s.failures++
		return
	}
	s.fail("")
	s.failures = 0
	switch {
	case s.State == Waiting:
		s.move(Draining)
	case s.State == Draining && !e.drained:
		s.next = s.now.Add(e.interval)
	case s.State == Draining:
		s.report(zap.InfoLevel, "instance drained", zap.Duration("took", s.now.Sub(s.Started)))
		s.move(Drained)
	case s.State == Undoing:
		s.report(zap.InfoLevel, "instance returned to service", zap.String("why", s.Why))
		s.end()
	default:
		s.end()
	}
}

func pause(first time.Duration, failures int) time.Duration {
	const most = 6 // the maximum number of doublings
	return min(first<<min(failures, most), max(first, longestPause))
}

// sighting is the event that the target was read. In the zero value the instance is missing.
type sighting struct {
	observed time.Time
	// staying is false for an instance that the platform is removing.
	there, staying, protected bool
}

func (e sighting) apply(s *transition) {
	if e.observed.Before(s.Changed) {
		return
	}
	if !e.there {
		s.miss()
		return
	}
	s.missingSince = time.Time{}
	switch {
	case e.staying:
		e.stay(s)
	case s.returnable(): // an external writer removed it
		s.do(doCancel)
		s.move(Terminating)
	case s.State == Removing && !s.removalPending:
		s.fail("")
		s.move(Terminating)
	}
}

// miss handles a reading without the instance. After missingTime, it ends the operation or starts
// the drainer's cleanup.
func (s *transition) miss() {
	if s.missingSince.IsZero() {
		s.missingSince = s.now
	}
	if s.now.Sub(s.missingSince) < missingTime || s.State == Finishing || s.removalPending {
		return
	}
	s.Outcome = Vanished
	if s.Attempts > 0 {
		s.Outcome = Terminated
	}
	s.fail("")
	s.report(zap.InfoLevel, "instance gone", zap.String("outcome", string(s.Outcome)))
	if s.drainerCalled {
		s.move(Finishing)
	} else {
		s.end()
	}
}

// stay handles an instance that the platform has neither removed nor marked as Deleting.
func (e sighting) stay(s *transition) {
	switch s.State {
	case Drained:
		if e.protected {
			s.takeBack(Failed, "the platform protects it")
		}
	case Removing:
		switch since := e.observed.Sub(clock.Later(s.Changed, s.removalReturned)); {
		case s.removalPending || since < 0:
		case s.Why != "": // the platform rejected the removal, and the instance still exists
			s.takeBack(Failed, s.Why)
		case since >= settleTime:
			s.retryRemoval("its removal was requested, but it still exists")
		}
	case Terminating:
		if s.now.Sub(s.Changed) >= terminationTime {
			s.takeBack(Failed, "the platform accepted its removal, but it still exists")
		}
	}
}

// retryRemoval retries a removal that had no effect, or gives up.
func (s *transition) retryRemoval(why string) {
	if s.Attempts < removalTries {
		s.move(Drained)
		return
	}
	s.takeBack(Failed, because(why, s.Error))
}

// lost is the event that the target is gone.
type lost struct{ err error }

func (e lost) apply(s *transition) {
	if s.leaving() && !s.removalPending && s.now.After(s.Deadline) {
		s.fail(e.err.Error())
		s.takeBack(Failed, "the target no longer exists: "+e.err.Error())
	}
}

// unwanted is the event that the count increased, so the instance should return to service.
type unwanted struct{ why string }

func (e unwanted) apply(s *transition) {
	if s.returnable() {
		s.takeBack(Undone, e.why)
	}
}

// superseded is the event that a newer operation for the same instance exists.
type superseded struct{}

func (superseded) apply(s *transition) {
	if s.State == Undoing {
		s.fail("") // the error is obsolete
		s.end()
	}
}

// removing is the event that the removal call starts.
type removing struct{}

func (removing) apply(s *transition) {
	s.move(Removing)
	s.Attempts++
	s.removalPending = true
}

// withdrawn is the event that the removal call was not made.
type withdrawn struct{ err error }

func (e withdrawn) apply(s *transition) {
	s.removalPending = false
	s.Attempts--
	s.fail(e.err.Error())
	s.move(Drained)
}

// delayed is the event that drained instances cannot be removed yet.
type delayed struct{ err error }

func (e delayed) apply(s *transition) {
	if s.State == Drained {
		s.fail(e.err.Error())
	}
}

// removed is the event that the removal call returned.
type removed struct{ err error }

func (e removed) apply(s *transition) {
	if !s.removalPending {
		return
	}
	s.removalPending = false
	if e.err == nil {
		s.fail("")
		s.move(Terminating)
		return
	}
	s.removalReturned = s.now
	s.fail(e.err.Error())
	switch {
	case errors.Is(e.err, targets.ErrUnknownOutcome) || isPartial(e.err):
		// Readings reveal the outcome.
	case errors.Is(e.err, targets.ErrHeld) || errors.Is(e.err, targets.ErrThrottled) || errors.Is(e.err, targets.ErrConflict):
		withdrawn(e).apply(s)
	case errors.Is(e.err, targets.ErrTransient):
		s.retryRemoval("its removal cannot be requested")
	default:
		s.Why = "the platform rejects its removal: " + e.err.Error()
		s.do(doSave)
	}
}
