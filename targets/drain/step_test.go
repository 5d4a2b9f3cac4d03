package drain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/targets"
)

var (
	errTest = errors.New("spoiled")
	begun   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// idle is a Drainer that is not called.
type idle struct{}

func (idle) Begin(context.Context, Instance) error           { return errTest }
func (idle) Drained(context.Context, Instance) (bool, error) { return false, errTest }
func (idle) Undo(context.Context, Instance) error            { return errTest }
func (idle) Finish(context.Context, Instance) error          { return errTest }

var (
	draining  = Options{Drainer: idle{}}.defaulted()
	undoing   = Options{Drainer: idle{}, Expiry: Undo}.defaulted()
	undrained = Options{Victims: Oldest}.defaulted()
)

// at returns an operation that has been in a state since it began.
func at(state State, change ...func(o *Operation)) Operation {
	o := Operation{
		ID: "op", Instance: Instance{ID: "web-0"}, Started: begun, Deadline: begun.Add(10 * time.Minute), State: state, Changed: begun,
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

func touched(o *Operation) { o.drainerCalled = true }

func asking(o *Operation) { o.removalPending = true }

func attempts(n int) func(o *Operation) { return func(o *Operation) { o.Attempts = n } }

// TestStep checks the effect of each event in each relevant state.
func TestStep(t *testing.T) {
	reading := func(after time.Duration, there, staying bool) sighting {
		return sighting{observed: begun.Add(after), there: there, staying: staying}
	}
	absent := func(o *Operation) { o.missingSince = begun }
	for _, c := range []struct {
		name  string
		from  Operation
		event event
		after time.Duration
		// want lists the state, the outcome, the attempts, the reason or error, and the effects.
		want string
	}{
		{"tick calls the drainer", at(Waiting), tick{draining, true, false}, 0, "waiting; call"},
		{"tick while the drainer is busy", at(Waiting), tick{draining, true, true}, 0, "waiting;"},
		{"tick before the next call", at(Draining, func(o *Operation) { o.next = begun.Add(time.Minute) }), tick{draining, true, false}, 0, "draining;"},
		{"tick without a drainer", at(Waiting), tick{undrained, true, false}, 0, "drained; save"},
		{"tick after the drainer was removed", at(Undoing, touched), tick{undrained, true, false}, 0, "ended; save"},
		{"tick at the deadline", at(Draining, touched), tick{draining, true, true}, 10 * time.Minute, "drained, it was not drained before its deadline; save cancel"},
		{"tick at the deadline with expiry undo", at(Draining, touched), tick{undoing, true, true}, 10 * time.Minute, "undoing failed, it was not drained before its deadline; cancel save"},
		{"tick at the deadline before any call", at(Waiting), tick{undoing, true, true}, 10 * time.Minute, "ended failed, it was not drained before its deadline; cancel save"},
		{"tick after a day of undoing", at(Undoing, touched), tick{draining, true, false}, 25 * time.Hour, "ended; save"},
		{"tick after too many failed cleanups", at(Finishing, func(o *Operation) { o.failures = finishTries }), tick{draining, true, false}, 0, "ended; save"},
		{"tick of a target without an autoscaler", at(Draining), tick{}, 24 * time.Hour, "draining;"},
		{"tick of a target without an autoscaler, a day later", at(Draining), tick{}, 25 * time.Hour, "ended failed, the target has no autoscaler; save"},
		{"begin succeeded", at(Waiting), returned{state: Waiting}, 0, "draining; save"},
		{"begin failed", at(Waiting), returned{state: Waiting, err: errTest}, 0, "waiting, spoiled; report save"},
		{"begin failed repeatedly", at(Waiting, func(o *Operation) { o.failures, o.Error = 3, "spoiled" }), returned{state: Waiting, err: errTest}, 0, "waiting, spoiled;"},
		{"work remains", at(Draining), returned{state: Draining}, 0, "draining;"},
		{"drained", at(Draining), returned{state: Draining, drained: true}, 0, "drained; report save"},
		{"drained too late", at(Undoing), returned{state: Draining, drained: true}, 0, "undoing;"},
		{"undone", at(Undoing), returned{state: Undoing}, 0, "ended; report save"},
		{"cleaned up", at(Finishing), returned{state: Finishing}, 0, "ended; save"},
		{"there", at(Draining), reading(1, true, true), 1, "draining;"},
		{"removed by an external writer", at(Draining), reading(1, true, false), 1, "terminating; cancel save"},
		{"read before the last change", at(Draining), reading(-1, true, false), 1, "draining;"},
		{"missing", at(Draining), reading(1, false, false), 1, "draining;"},
		{"missing for a long time", at(Draining, absent), reading(1, false, false), missingTime, "ended vanished; report save"},
		{"missing for a long time, after drainer calls", at(Draining, absent, touched), reading(1, false, false), missingTime, "finishing vanished; report save"},
		{"gone after its removal", at(Terminating, absent, attempts(1)), reading(1, false, false), missingTime, "ended terminated x1; report save"},
		{"missing during its removal", at(Removing, absent, asking), reading(1, false, false), missingTime, "removing;"},
		{"deleting after a removal with an unknown outcome", at(Removing), reading(1, true, false), 1, "terminating; save"},
		{"present after a removal with an unknown outcome", at(Removing, attempts(1)), reading(1, true, true), 1, "removing x1;"},
		{"present long after a removal with an unknown outcome", at(Removing, attempts(1)), reading(settleTime, true, true), settleTime, "drained x1; save"},
		{"present after the last removal with an unknown outcome", at(Removing, attempts(3)), reading(settleTime, true, true), settleTime, "ended failed x3, its removal was requested, but it still exists; cancel save"},
		{"present after a rejected removal", at(Removing, touched, func(o *Operation) { o.Why = "no" }), reading(1, true, true), 1, "undoing failed, no; cancel save"},
		{"present long after an accepted removal", at(Terminating, touched), reading(1, true, true), terminationTime, "undoing failed, the platform accepted its removal, but it still exists; cancel save"},
		{"protected", at(Drained, touched), sighting{begun, true, true, true}, 0, "undoing failed, the platform protects it; cancel save"},
		{"target is gone", at(Draining), lost{errTest}, 0, "draining;"},
		{"target is gone after the deadline", at(Draining), lost{errTest}, time.Hour, "ended failed, the target no longer exists: spoiled; save cancel"},
		{"wanted again", at(Draining, touched), unwanted{"more"}, 0, "undoing undone, more; cancel save"},
		{"wanted again before any call", at(Waiting), unwanted{"more"}, 0, "ended undone, more; cancel save"},
		{"wanted again too late", at(Removing), unwanted{"more"}, 0, "removing;"},
		{"chosen again", at(Undoing), superseded{}, 0, "ended; save"},
		{"restarted", at(Draining), restarted{}, 0, "draining;"},
		{"removal starts", at(Drained), removing{}, 0, "removing x1; save"},
		{"removal withdrawn", at(Removing, asking, attempts(1)), withdrawn{errTest}, 0, "drained, spoiled; save"},
		{"removal delayed", at(Drained), delayed{errTest}, 0, "drained, spoiled; save"},
		{"removed", at(Removing, asking, attempts(1)), removed{}, 0, "terminating x1; save"},
		{"removal with an unknown outcome", at(Removing, asking, attempts(1)), removed{targets.ErrUnknownOutcome}, 0, "removing x1, outcome of the write is unknown; save"},
		{"removal is held", at(Removing, asking, attempts(1)), removed{targets.ErrHeld}, 0, "drained, target is held; save"},
		{"removal fails", at(Removing, asking, attempts(1)), removed{targets.ErrTransient}, 0, "drained x1, temporary failure; save"},
		{"removal fails too often", at(Removing, asking, attempts(3)), removed{targets.ErrTransient}, 0, "ended failed x3, its removal cannot be requested: temporary failure; save cancel"},
		{"removal is rejected", at(Removing, asking, attempts(1)), removed{targets.ErrForbidden}, 0, "removing x1, the platform rejects its removal: forbidden; save"},
		{"result of an earlier removal", at(Removing), removed{}, 0, "removing;"},
		{"reading after the end", at(Ended), sighting{}, time.Hour, "ended;"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.from
			after, effects := step(c.from, c.event, begun.Add(c.after))
			if got := shown(after, effects); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if !reflect.DeepEqual(c.from, before) {
				t.Errorf("step changed its argument to %+v", c.from)
			}
		})
	}
}

// shown formats the result of a step for TestStep.
func shown(o Operation, effects []effect) string {
	words := []string{string(o.State)}
	if o.Outcome != "" {
		words = append(words, string(o.Outcome))
	}
	if o.Attempts > 0 {
		words = append(words, fmt.Sprintf("x%d", o.Attempts))
	}
	text := strings.Join(words, " ")
	if why := cmp.Or(o.Why, o.Error); why != "" {
		text += ", " + why
	}
	words = []string{text + ";"}
	for _, e := range effects {
		words = append(words, string(e.action))
	}
	return strings.Join(words, " ")
}

// events generates random events at the given time.
func events(now time.Time) *rapid.Generator[event] {
	classes := []error{nil, errTest, targets.ErrUnknownOutcome, targets.ErrHeld, targets.ErrTransient, &targets.PartialError{Err: errTest}}
	return rapid.Custom(func(t *rapid.T) event {
		err := rapid.SampledFrom(classes).Draw(t, "err")
		failed := errors.Join(errTest, err)
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		switch rapid.IntRange(0, 11).Draw(t, "event") {
		case 0, 1:
			options := rapid.SampledFrom([]Options{draining, undoing, undrained}).Draw(t, "options")
			return tick{options, flag("configured"), flag("busy")}
		case 2, 3:
			state := rapid.SampledFrom([]State{Waiting, Draining, Undoing, Finishing}).Draw(t, "state")
			return returned{state: state, drained: flag("drained"), err: err, interval: time.Second}
		case 4, 5:
			age := time.Duration(rapid.IntRange(0, 60).Draw(t, "age")) * time.Second
			return sighting{now.Add(-age), flag("there"), flag("staying"), flag("protected")}
		case 6:
			return lost{failed}
		case 7:
			return unwanted{"more"}
		case 8:
			return superseded{}
		case 9:
			return restarted{}
		case 10:
			return delayed{failed}
		default:
			return removed{err}
		}
	})
}

// TestAnyEvents checks the invariants of an operation with random events: it only moves forward, it
// is recorded, and its drain is undone before it ends without a removal.
func TestAnyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, now, undone := at(Waiting), begun, false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 20 * time.Minute, 30 * time.Hour}).Draw(t, "pause"))
			e := events(now).Draw(t, "event")
			if o.State == Drained && rapid.Bool().Draw(t, "ask") {
				e = removing{}
			} else if o.removalPending && rapid.Bool().Draw(t, "withdraw") {
				e = withdrawn{errTest}
			}
			next, effects := step(o, e, now)
			again, same := step(o, e, now)
			if !reflect.DeepEqual(next, again) || !reflect.DeepEqual(same, effects) {
				t.Fatalf("%T returned %+v and then %+v for the same operation", e, next, again)
			}
			check(t, o, next, e, effects)
			undone = undone || next.State == Undoing
			if _, forgotten := e.(tick); next.State == Ended && o.State != Ended && next.Why != "" && next.drainerCalled && !undone && !forgotten {
				t.Fatalf("%+v ended before its drain was undone or finished", next)
			}
			o = next
		}
	})
}

// check checks the invariants of one step.
func check(t *rapid.T, o, next Operation, e event, effects []effect) {
	did := func(a action) bool {
		return slices.ContainsFunc(effects, func(e effect) bool { return e.action == a })
	}
	switch {
	case o.State == Ended && (!reflect.DeepEqual(o, next) || len(effects) > 0):
		t.Fatalf("%T changed an ended operation to %+v", e, next)
	case stored(t, o) != stored(t, next) && !did(doSave):
		t.Fatalf("%T changed %+v to %+v without recording it", e, o, next)
	case did(doCall) && (!next.called() || !next.drainerCalled):
		t.Fatalf("%T called the drainer unexpectedly for %+v", e, next)
	case (next.State == Ended) != !next.Ended.IsZero():
		t.Fatalf("%T: state and end time differ: %+v ended at %v", e, next, next.Ended)
	case next.removalPending && next.State != Removing && next.State != Ended:
		t.Fatalf("%T returned %+v, whose pending removal does not match its state", e, next)
	case o.State == Undoing && next.leaving() && next.State != Finishing:
		t.Fatalf("%T returned %+v, which removes an instance that was returned to service", e, next)
	case next.Attempts < 0 || next.Attempts > removalTries:
		t.Fatalf("%T: attempts = %d", e, next.Attempts)
	}
	var again Operation
	if err := json.Unmarshal([]byte(stored(t, next)), &again); err != nil || stored(t, again) != stored(t, next) {
		t.Fatalf("%+v was decoded as %+v, %v", next, again, err)
	}
}

// stored returns the stored form of an operation.
func stored(t *rapid.T, o Operation) string {
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
