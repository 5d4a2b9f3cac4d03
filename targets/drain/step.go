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
	// callTimeout bounds one call of a drainer.
	callTimeout = time.Minute
	// longestPause is the most between two tries, and between two readings.
	longestPause = time.Minute
	// undoPatience is how long the work of an instance is tried to be given back,
	// finishTries how often clearing up is tried, removalTries how often a removal.
	undoPatience = 24 * time.Hour
	finishTries  = 10
	removalTries = 3
	// settleTime is how long the platform may take to show a removal whose outcome is
	// unknown, terminationTime one that it accepted.
	settleTime      = 30 * time.Second
	terminationTime = 5 * time.Minute
	// missingTime is how long an instance must be missing in all readings to be gone:
	// one reading can be wrong.
	missingTime = 2 * time.Second
)

// effect is what a step asks the world to do; level, message and fields are those
// of a report.
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
	doCancel action = "cancel" // end the call of the drainer for the instance
	doReport action = "report" // log an entry
)

// event is what may happen to an operation.
type event interface{ apply(s *transition) }

// step returns the operation after an event, and what is to be done for it. An
// operation that has ended stays as it is.
func step(o Operation, e event, now time.Time) (Operation, []effect) {
	s := transition{Operation: o, now: now}
	if o.State != Ended {
		e.apply(&s)
	}
	return s.Operation, s.effects
}

// transition is a step being made.
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

// fail keeps an error; "" forgets the last one.
func (s *transition) fail(text string) {
	if s.Error != text {
		s.Error = text
		s.do(doSave)
	}
}

// takeBack lets the instance count again; its work comes back in the background.
func (s *transition) takeBack(outcome Outcome, why string) {
	s.Why, s.Outcome = why, outcome
	s.do(doCancel)
	if s.drainerCalled {
		s.move(Undoing)
	} else {
		s.end()
	}
}

// restarted: another process began the operation, and may have called the drainer.
type restarted struct{}

func (restarted) apply(s *transition) { s.drainerCalled = true }

// tick: time goes on.
type tick struct {
	// options are those in force; they mean nothing unless the target is configured.
	options    Options
	configured bool
	// busy means that the drainer cannot be called for the instance now.
	busy bool
}

func (e tick) apply(s *transition) {
	if !e.configured {
		if s.now.Sub(s.Deadline) > endedKept {
			s.Outcome, s.Why = Failed, "no autoscaler has the target any more"
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

// pass makes what change needs no call.
func (e tick) pass(s *transition) {
	const late = "it was not drained by its deadline"
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

// called reports whether a drainer has something to do in the operation's state.
func (o *Operation) called() bool {
	return o.State == Waiting || o.State == Draining || o.State == Undoing || o.State == Finishing
}

// returned: the drainer returned from the call for a state.
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
			s.report(zap.WarnLevel, "a drain does not go on; it is tried again", zap.String("state", string(s.State)), zap.Error(e.err))
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
		s.report(zap.InfoLevel, "instance is drained", zap.Duration("took", s.now.Sub(s.Begun)))
		s.move(Drained)
	case s.State == Undoing:
		s.report(zap.InfoLevel, "instance was taken back", zap.String("why", s.Why))
		s.end()
	default:
		s.end()
	}
}

// pause returns how long to wait after so many failures before this one.
func pause(first time.Duration, failures int) time.Duration {
	const most = 6 // doublings: enough for any interval worth its name
	return min(first<<min(failures, most), max(first, longestPause))
}

// seen: the target was read. The zero seen is an instance that is not there.
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
	case s.returnable(): // somebody else took it
		s.do(doCancel)
		s.move(Terminating)
	case s.State == Removing && !s.removalPending:
		s.fail("")
		s.move(Terminating)
	}
}

// miss ends what is to be done with an instance that is gone, when that lasts.
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
	s.report(zap.InfoLevel, "instance is gone", zap.String("outcome", string(s.Outcome)))
	if s.drainerCalled {
		s.move(Finishing)
	} else {
		s.end()
	}
}

// stay judges what the platform shows as if nothing had happened.
func (e sighting) stay(s *transition) {
	switch s.State {
	case Drained:
		if e.protected {
			s.takeBack(Failed, "the platform protects it")
		}
	case Removing:
		switch since := e.observed.Sub(clock.Later(s.Changed, s.removalReturned)); {
		case s.removalPending || since < 0:
		case s.Why != "": // the platform refused, and it really is there
			s.takeBack(Failed, s.Why)
		case since >= settleTime:
			s.retryRemoval("the platform was asked to remove it, and it is still there")
		}
	case Terminating:
		if s.now.Sub(s.Changed) >= terminationTime {
			s.takeBack(Failed, "the platform accepted its removal, and it is still there")
		}
	}
}

// again lets a removal that did nothing be tried again, or gives it up.
func (s *transition) retryRemoval(why string) {
	if s.Attempts < removalTries {
		s.move(Drained)
		return
	}
	s.takeBack(Failed, because(why, s.Error))
}

// lost: the target is gone.
type lost struct{ err error }

func (e lost) apply(s *transition) {
	if s.leaving() && !s.removalPending && s.now.After(s.Deadline) {
		s.fail(e.err.Error())
		s.takeBack(Failed, "the target is gone: "+e.err.Error())
	}
}

// unwanted: the count is to be as if the instance had not been chosen.
type unwanted struct{ why string }

func (e unwanted) apply(s *transition) {
	if s.returnable() {
		s.takeBack(Undone, e.why)
	}
}

// superseded: another operation has the instance.
type superseded struct{}

func (superseded) apply(s *transition) {
	if s.State == Undoing {
		s.fail("") // it no longer matters
		s.end()
	}
}

// removing: a call to remove the instance is about to be made.
type removing struct{}

func (removing) apply(s *transition) {
	s.move(Removing)
	s.Attempts++
	s.removalPending = true
}

// withdrawn: it was not made after all.
type withdrawn struct{ err error }

func (e withdrawn) apply(s *transition) {
	s.removalPending = false
	s.Attempts--
	s.fail(e.err.Error())
	s.move(Drained)
}

// delayed: drained instances cannot be removed yet.
type delayed struct{ err error }

func (e delayed) apply(s *transition) {
	if s.State == Drained {
		s.fail(e.err.Error())
	}
}

// removed: it returned.
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
		// Readings show what became of it.
	case errors.Is(e.err, targets.ErrHeld) || errors.Is(e.err, targets.ErrThrottled) || errors.Is(e.err, targets.ErrConflict):
		withdrawn(e).apply(s)
	case errors.Is(e.err, targets.ErrTransient):
		s.retryRemoval("the platform cannot be asked to remove it")
	default:
		s.Why = "the platform refuses to remove it: " + e.err.Error()
		s.do(doSave)
	}
}
