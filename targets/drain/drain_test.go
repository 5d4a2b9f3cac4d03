package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

var errTest = errors.New("injected error")

// TestDrain checks that a scale-down changes the count immediately, drains, removes all victims
// in one call and cleans up.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0", "web-1")
		w := newWorld(t, 4, d)
		w.platform.Change("web", func(target *targettest.MemoryTarget) { target.StopDelay = time.Minute })
		w.scale(2)
		w.expect("right after the decision", 2, 2, 4)
		if got := deleting(w.read()); !slices.Equal(got, []string{"web-0", "web-1"}) {
			t.Errorf("deleting instances = %v, want the two oldest", got)
		}
		if again := w.read().Version; again != w.read().Version {
			t.Errorf("version changed from %q to %q without a change", again, w.read().Version)
		}
		w.wait(time.Minute)
		w.expectRemoved()
		if op := w.operation("web-1"); op.State != drain.Draining || op.Decision != "test decision" || op.Deadline.Sub(op.Started) != 10*time.Minute {
			t.Errorf("operation = %+v, want Draining with the test's decision and a deadline of 10 minutes", op)
		}
		if notices := w.read().Notices; len(notices) != 1 || notices[0].Condition != drain.ConditionDraining {
			t.Errorf("notices = %+v", notices)
		}
		d.done("web-0", "web-1")
		w.wait(10 * time.Second)
		w.expectRemoved("web-0", "web-1")
		if removals := w.platform.Removals(); len(removals) != 1 || removals[0].Version == "" || removals[0].Reason != "test decision" {
			t.Errorf("removals = %+v, want one call with a version and the decision's reason", removals)
		}
		w.expect("during the removal", 2, 2, 2)
		if op := w.operation("web-0"); op.State != drain.Terminating {
			t.Errorf("operation = %+v, want Terminating", op)
		}
		if d.callCount("finish web-0") != 0 {
			t.Error("the drainer received finish for an instance that still exists")
		}
		w.wait(2 * time.Minute)
		for _, id := range []string{"web-0", "web-1"} {
			if op := w.operation(id); op.State != drain.Ended || op.Outcome != drain.Terminated || op.Error != "" {
				t.Errorf("operation = %+v, want Ended and Terminated", op)
			}
			if d.callCount("begin "+id) != 1 || d.callCount("finish "+id) != 1 || d.callCount("undo "+id) != 0 {
				t.Errorf("calls = %v, want one begin and one finish for each instance", d.calls)
			}
		}
		w.expect("in the end", 2, 2, 2)
		if notices := w.read().Notices; len(notices) != 0 {
			t.Errorf("notices after the removal = %+v, want none", notices)
		}
	})
}

// TestReturnToService checks that a scale-up cancels the newest operations first, does not wait for
// the drainer, and requests only the remaining instances from the platform.
func TestReturnToService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0", "web-1", "web-2")
		w := newWorld(t, 5, d)
		w.scale(4)
		w.wait(time.Second)
		w.scale(2)
		w.wait(time.Second)
		w.expect("three instances draining", 2, 2, 5)
		d.fail("undo", errTest)
		w.scale(4)
		w.expect("two instances returned to service", 4, 4, 5)
		if got := deleting(w.read()); !slices.Equal(got, []string{"web-0"}) {
			t.Errorf("deleting instances = %v, want only the instance of the oldest operation", got)
		}
		if op := w.operation("web-2"); op.State != drain.Undoing || op.Error != errTest.Error() {
			t.Errorf("operation = %+v, want Undoing with the error", op)
		}
		w.scale(7)
		w.expect("all instances returned to service and two added", 7, 7, 7)
		w.wait(30 * time.Minute)
		d.fail("undo", nil)
		w.wait(5 * time.Minute)
		for _, id := range []string{"web-0", "web-1", "web-2"} {
			if op := w.operation(id); op.State != drain.Ended || op.Outcome != drain.Undone || op.Error != "" {
				t.Errorf("operation = %+v, want Undone", op)
			}
		}
		w.expectRemoved()
	})
}

// TestDeadline checks that overdue instances are removed or returned to service.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		expiry  drain.Expiry
		taken   []string
		count   int32
		outcome drain.Outcome
	}{
		{"", []string{"web-0"}, 1, drain.Terminated},
		{drain.Terminate, []string{"web-0"}, 1, drain.Terminated},
		{drain.Undo, nil, 2, drain.Failed},
	} {
		t.Run(string(c.expiry), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, newDrainer("web-0"))
				w.configure(func(options *drain.Options) { options.Expiry = c.expiry })
				w.scale(1)
				w.wait(10*time.Minute - 10*time.Second)
				w.expect("before the deadline", 1, 1, 2)
				w.wait(time.Minute)
				w.expect("after the deadline", c.count, c.count, c.count)
				w.expectRemoved(c.taken...)
				if op := w.operation("web-0"); op.Outcome != c.outcome {
					t.Errorf("operation = %+v, want outcome %s", op, c.outcome)
				}
			})
		})
	}
}

// TestRejectedRemoval checks that hpad undoes the drain and restores the count if the platform
// rejects a removal, and that it retries a removal that does not reach the platform.
func TestRejectedRemoval(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		calls int
		taken []string
	}{
		{"forbidden", targets.ErrForbidden, 1, nil},
		{"unclassified error", errTest, 1, nil},
		{"permanently unreachable", targets.ErrTransient, 3, nil},
		{"outcome permanently unknown", targets.ErrUnknownOutcome, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrainer()
				w := newWorld(t, 3, d)
				mend := w.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Err: c.err})
				w.scale(2)
				w.wait(5 * time.Minute)
				w.expect("after the last attempt", 3, 3, 3)
				if n := len(w.platform.Removals()); n != c.calls {
					t.Errorf("removals = %d, want %d", n, c.calls)
				}
				op := w.operation("web-0")
				if op.State != drain.Ended || op.Outcome != drain.Failed || op.Why == "" || d.callCount("undo web-0") != 1 {
					t.Errorf("operation = %+v with %d undo calls, want Failed with one undo call", op, d.callCount("undo web-0"))
				}
				if notices := w.read().Notices; len(notices) != 1 || notices[0].Condition != drain.ConditionDrainFailed {
					t.Errorf("notices = %+v, want the failure", notices)
				}
				mend()
				w.scale(2)
				w.wait(time.Minute)
				w.expect("after the next decision", 2, 2, 2)
				w.expectRemoved("web-0")
				w.wait(time.Minute)
				if notices := w.read().Notices; len(notices) != 0 {
					t.Errorf("notices after a success = %+v, want none", notices)
				}
			})
		})
	}
}

// TestUnknownOutcome checks that hpad waits for readings after a removal with an unknown outcome,
// and does not repeat the removal.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, newDrainer())
		w.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Lost: true, Times: 1})
		w.scale(1)
		w.wait(5 * time.Minute)
		w.expect("after a lost response", 1, 1, 1)
		w.expectRemoved("web-0", "web-1")
		if n := len(w.platform.Removals()); n != 1 {
			t.Errorf("removals = %d, want 1", n)
		}
		if op := w.operation("web-0"); op.Outcome != drain.Terminated {
			t.Errorf("operation = %+v, want Terminated", op)
		}
	})
}

// TestHeldRemoval checks that removals wait for the end of holds and throttling without a time
// limit.
func TestHeldRemoval(t *testing.T) {
	for _, err := range []error{targets.ErrHeld, &targets.ThrottledError{RetryAfter: 20 * time.Minute, Err: errTest}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3, newDrainer())
			mend := w.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Err: err})
			w.scale(2)
			w.wait(15 * time.Minute)
			w.expect("while the removal is rejected", 2, 2, 3)
			if _, throttled := errors.AsType[*targets.ThrottledError](err); throttled && len(w.platform.Removals()) != 1 {
				t.Errorf("removals while throttled = %d, want 1", len(w.platform.Removals()))
			}
			mend()
			w.wait(6 * time.Minute)
			w.expect("after it", 2, 2, 2)
			w.expectRemoved("web-0")
		})
	}
}

// TestHold checks that while the platform holds the target, there are no removals and no new
// decisions.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0")
		w := newWorld(t, 3, d)
		w.scale(2)
		w.wait(time.Second)
		hold := func(hold *policy.Hold) {
			w.platform.Change("web", func(target *targettest.MemoryTarget) { target.Hold = hold })
		}
		hold(&policy.Hold{Reason: "Refreshing", Message: "an instance refresh is in progress"})
		d.done("web-0")
		w.wait(30 * time.Minute)
		w.expect("during the hold", 2, 2, 3)
		if removals := w.platform.Removals(); len(removals) != 0 {
			t.Errorf("removals during the hold = %d, want 0", len(removals))
		}
		if op := w.operation("web-0"); !strings.Contains(op.Error, "Refreshing") {
			t.Errorf("operation = %+v, want an error with the hold's message", op)
		}
		var held *targets.HeldError
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 1, "", "test decision"); !errors.As(err, &held) || held.Hold.Reason != "Refreshing" {
			t.Errorf("SetReplicas() during the hold = %v, want a HeldError", err)
		}
		hold(nil)
		w.wait(2 * time.Minute)
		w.expect("after it", 2, 2, 2)
	})
}

// TestIncompleteReading checks that a single reading that lacks the instances has no effect on a
// drain.
func TestIncompleteReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0")
		w := newWorld(t, 3, d)
		w.scale(2)
		w.wait(time.Second)
		for range 3 {
			before := w.platform.Calls().Snapshots
			w.platform.Change("web", func(target *targettest.MemoryTarget) {
				target.Edit = func(reading *targets.Reading) { reading.Instances, reading.Locations = nil, nil }
			})
			for n := 0; w.platform.Calls().Snapshots == before && n < 1000; n++ {
				w.wait(100 * time.Millisecond)
			}
			w.platform.Change("web", func(target *targettest.MemoryTarget) { target.Edit = nil })
			w.wait(20 * time.Second)
		}
		w.expect("after incomplete readings", 2, 2, 3)
		if d.callCount("finish web-0") != 0 {
			t.Error("the drainer received finish for an instance that still exists")
		}
	})
}

// TestExternalCount checks that if an external writer lowers the count during a drain, hpad does
// not lower it further, nor below the platform's minimum.
func TestExternalCount(t *testing.T) {
	least := int32(4)
	for _, c := range []struct {
		name        string
		change      func(target *targettest.MemoryTarget)
		spec, count int32
	}{
		{"lowered to the decided count", func(target *targettest.MemoryTarget) { target.Replicas = 3 }, 3, 3},
		{"lowered below the decided count", func(target *targettest.MemoryTarget) { target.Replicas = 2 }, 2, 2},
		{"lowered, but above the decided count", func(target *targettest.MemoryTarget) { target.Replicas = 4 }, 3, 3},
		{"raised", func(target *targettest.MemoryTarget) { target.Replicas = 8 }, 6, 6},
		{"minimum raised", func(target *targettest.MemoryTarget) { target.Min = &least }, 4, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrainer("web-0", "web-1")
				w := newWorld(t, 5, d)
				w.scale(3)
				w.wait(time.Second)
				w.platform.Change("web", c.change)
				if got := w.read().SpecReplicas; got != c.spec {
					t.Errorf("spec replicas immediately after the change = %d, want %d", got, c.spec)
				}
				d.done("web-0", "web-1")
				w.wait(5 * time.Minute)
				w.expect("in the end", c.spec, c.spec, c.count)
				taken := w.removed()
				for _, id := range []string{"web-0", "web-1"} {
					op, back := w.operation(id), !slices.Contains(taken, id)
					if op.State != drain.Ended || back != (op.Outcome == drain.Undone) || back && d.callCount("undo "+id) != 1 {
						t.Errorf("operation = %+v, want Ended, and Undone if the instance was not removed", op)
					}
				}
			})
		})
	}
}

// TestProtected checks that protected instances are not chosen, and that an instance that becomes
// protected during its drain is returned to service.
func TestProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-1")
		w := newWorld(t, 3, d)
		w.platform.Protect("web", "web-0", true)
		w.scale(2)
		if got := deleting(w.read()); !slices.Equal(got, []string{"web-1"}) {
			t.Fatalf("deleting instances = %v, want the oldest unprotected instance", got)
		}
		w.wait(time.Second)
		w.platform.Protect("web", "web-1", true)
		d.done("web-1")
		w.wait(time.Minute)
		w.expect("after the instance became protected", 3, 3, 3)
		w.expectRemoved()
		err := w.fleet.SetReplicas(t.Context(), w.ref, 0, "", "test decision")
		var partial *targets.PartialError
		if !errors.As(err, &partial) || partial.Reached != 2 {
			t.Errorf("SetReplicas(0) with one removable instance = %v, want a PartialError", err)
		}
		w.wait(time.Minute)
		w.expect("after the partial scale-down", 2, 2, 2)
		err = w.fleet.SetReplicas(t.Context(), w.ref, 0, "", "test decision")
		var held *targets.HeldError
		if !errors.As(err, &held) || held.Hold.Reason != drain.InstancesProtected {
			t.Errorf("SetReplicas(0) without a removable instance = %v, want a HeldError", err)
		}
	})
}

// countingPlatform is a platform that counts concurrent removals.
type countingPlatform struct {
	targettest.Removable
	now, most *atomic.Int32
}

func (c countingPlatform) Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error {
	c.most.Store(max(c.most.Load(), c.now.Add(1)))
	time.Sleep(3 * time.Second)
	defer c.now.Add(-1)
	return c.Removable.Remove(ctx, ref, ids, version, reason)
}

// TestManyTargets checks that many targets are drained and removed a few at a time, each with one
// removal.
func TestManyTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 40
		platform := countingPlatform{targettest.Removable{Memory: targettest.NewMemory("memory")}, &atomic.Int32{}, &atomic.Int32{}}
		f := drain.Wrap(platform, &targettest.Store{}, clock.New(clock.System{}), zap.NewNop())
		options := map[targets.Ref]drain.Options{}
		for n := range count {
			ref := platform.Add(fmt.Sprintf("t%d", n), targettest.MemoryTarget{Replicas: 10})
			options[ref] = drain.Options{Victims: drain.Newest, Drainer: newDrainer()}
		}
		f.Configure(options)
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for ref := range options {
			if err := f.SetReplicas(t.Context(), ref, 4, "", "test decision"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		for ref := range options {
			if n := platform.Replicas(ref.Name); n != 4 {
				t.Errorf("%s: replicas = %d, want 4", ref, n)
			}
		}
		if n := len(platform.Removals()); n > count*3/2 || platform.most.Load() > 4 {
			t.Errorf("removals = %d, at most %d concurrent, want about one for each of %d targets and at most 4 concurrent", n, platform.most.Load(), count)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// expectNoOperations fails the test if the store still contains operations.
func (w *world) expectNoOperations() {
	w.Helper()
	w.wait(time.Second)
	if left := w.fleet.Draining(w.ref); len(left) > 0 {
		w.Errorf("remaining operations = %s, want none", describe(left))
	}
	if stored, err := w.store.List(w.Context(), "drain/"); err != nil || len(stored) > 0 {
		w.Errorf("stored entries = %q, %v, want none", stored, err)
	}
}

// TestUnsavedReturn checks that calls return an error until the return of draining instances to
// service is saved, because a restart would drain them again.
func TestUnsavedReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, newDrainer("web-0", "web-1", "web-2"))
		w.scale(1)
		w.store.Fail(errTest)
		for range 2 { // the second call changes nothing
			partial, ok := errors.AsType[*targets.PartialError](w.fleet.SetReplicas(t.Context(), w.ref, 3, "", "test decision"))
			if !ok || partial.Reached != 3 || !errors.Is(partial, errTest) {
				t.Errorf("SetReplicas() with a failing store = %v, want a PartialError with 3 reached", partial)
			}
		}
		w.store.Fail(nil)
		w.scale(3)
		w.restart()
		w.expect("after a restart", 3, 3, 3)
	})
}

// TestRemovalWithoutDrain checks that a removal with a known outcome leaves no operation in the
// store.
func TestRemovalWithoutDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, nil)
		w.scale(3)
		w.expect("removed", 3, 3, 3)
		w.expectRemoved("web-0")
		w.expectNoOperations()
		w.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Err: targets.ErrForbidden, Times: 1})
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "test decision"); !errors.Is(err, targets.ErrForbidden) {
			t.Errorf("SetReplicas() = %v, want the platform's error", err)
		}
		w.expect("refused", 3, 3, 3)
		w.expectNoOperations()
		w.store.Fail(errTest)
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "test decision"); err != nil {
			t.Errorf("SetReplicas() with a failing store = %v, want nil", err)
		}
		w.store.Fail(nil)
		w.expect("without a record", 2, 2, 2)
		w.expectRemoved("web-0", "web-1")
		w.wait(time.Minute)
		w.expectNoOperations()
	})
}

// TestRemovalWithUnknownOutcome checks that after a removal with an unknown outcome the same
// instances are removed, even if the order has changed, and even in a different process.
func TestRemovalWithUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		fault targettest.Fault
		// late changes the platform after the restart.
		late func(w *world) error
		// calls is the expected number of removals after the restart.
		calls int
	}{
		"done":  {fault: targettest.Fault{Lost: true}, calls: 1},
		"lost":  {fault: targettest.Fault{Err: targets.ErrUnknownOutcome}, calls: 2},
		"panic": {fault: targettest.Fault{Panic: "spoiled"}, calls: 1},
		"late": {fault: targettest.Fault{Err: targets.ErrUnknownOutcome}, late: func(w *world) error {
			return w.platform.Remove(w.Context(), w.ref, []string{"web-0"}, "", "")
		}, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, nil)
				c.fault.Call, c.fault.Times = targettest.WriteCall, 1
				w.platform.Inject(c.fault)
				func() {
					defer func() {
						if value := recover(); value != c.fault.Panic {
							t.Errorf("SetReplicas() panicked: %v", value)
						}
					}()
					if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "test decision"); !errors.Is(err, targets.ErrUnknownOutcome) {
						t.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
					}
				}()
				w.options.Victims = drain.Newest
				w.restart()
				if reading := w.read(); reading.SpecReplicas != 2 || slices.Contains(deleting(reading), "web-2") {
					t.Errorf("spec replicas = %d and deleting instances = %v, want 2 and the first victim", reading.SpecReplicas, deleting(reading))
				}
				if notices := w.read().Notices; len(notices) != 1 || notices[0].Condition != drain.ConditionDraining || !strings.HasPrefix(notices[0].Message, "1 instance is being removed") {
					t.Errorf("notices = %+v, want one instance being removed", notices)
				}
				w.scale(2)
				if c.late != nil {
					if err := c.late(w); err != nil {
						t.Fatal(err)
					}
				}
				w.wait(2 * time.Minute)
				w.expect("in the end", 2, 2, 2)
				w.expectRemoved("web-0")
				if n := len(w.platform.Removals()); n != c.calls {
					t.Errorf("%d removals, want %d", n, c.calls)
				}
				if op := w.operation("web-0"); op.Outcome != drain.Terminated {
					t.Errorf("operation = %+v, want Terminated", op)
				}
			})
		})
	}
}

// TestKilledWithoutDrain checks that if a process is killed at any step of a removal, the next
// process removes the same instance exactly once, even if its order differs.
func TestKilledWithoutDrain(t *testing.T) {
	const steps = 3 // record, remove, forget
	for step := range steps {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, nil)
				w.close()
				first := &dying{Removable: w.platform, store: w.store, left: step + 1, after: after}
				f := drain.Wrap(first, first, clock.New(clock.System{}), zap.NewNop())
				f.Configure(map[targets.Ref]drain.Options{w.ref: w.options})
				if err := f.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				// Wait until the background work sleeps, so that its steps do not mix with those of
				// the removal.
				synctest.Wait()
				_ = f.SetReplicas(t.Context(), w.ref, 2, "", "test decision") // the result is lost
				w.wait(time.Second)
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if !first.dead() {
					t.Fatalf("the removal has fewer than %d steps", step+1)
				}
				w.options.Victims = drain.Newest
				w.open()
				w.wait(2 * time.Minute)
				if step == 0 && !after {
					w.expect("no operation was recorded", 3, 3, 3)
					w.expectRemoved()
				} else {
					w.expect("after the restart", 2, 2, 2)
					w.expectRemoved("web-0")
				}
				if t.Failed() {
					t.Logf("killed at step %d, after its effect: %v", step+1, after)
				}
			})
		}
	}
}

// TestContract runs the contract suite over a wrapped fleet: without options, with named victims,
// and with a drainer that drains immediately.
func TestContract(t *testing.T) {
	for name, options := range map[string]drain.Options{
		"platform": {},
		"named":    {Victims: drain.Newest},
		"drained":  {Victims: drain.Newest, Drainer: newDrainer(), Interval: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			targettest.Run(t, targettest.Kind{Patience: 30 * time.Second, New: func(_ *testing.T, counts ...int32) *targettest.Platform {
				return newPlatform(options, counts...)
			}})
		})
	}
}

func newPlatform(options drain.Options, counts ...int32) *targettest.Platform {
	m := targettest.Removable{Memory: targettest.NewMemory("memory")}
	p := &targettest.Platform{Missing: m.Ref("nobody"), Survive: true}
	for i, count := range counts {
		p.Refs = append(p.Refs, m.Add("t"+strconv.Itoa(i), targettest.MemoryTarget{Replicas: count}))
	}
	store := &targettest.Store{}
	p.Open = func(*testing.T) targets.Fleet {
		f := drain.Wrap(m, store, clock.New(clock.System{}), zap.NewNop())
		all := map[targets.Ref]drain.Options{}
		for _, ref := range p.Refs {
			all[ref] = options
		}
		f.Configure(all)
		return f
	}
	p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.Replicas = n })
	}
	p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) { m.SetReady(ref.Name, id, ready) }
	p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) {
			target.Hold = nil
			if on {
				target.Hold = &policy.Hold{Reason: "Deploying", Message: "a deployment is in progress"}
			}
		})
	}
	p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
		m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.Max = &highest })
	}
	p.Reach = func(_ *testing.T, ref targets.Ref, count int32) {
		m.Inject(targettest.Fault{Call: targettest.WriteCall, Target: ref.Name, Times: 1, Reach: &count})
	}
	until := func(make func() targettest.Fault) func(*testing.T, bool) {
		end := func() {}
		return func(_ *testing.T, on bool) {
			end()
			if end = func() {}; on {
				end = m.Inject(make())
			}
		}
	}
	p.Unreachable = until(func() targettest.Fault { return targettest.Fault{Err: targets.ErrTransient} })
	p.Throttle = until(func() targettest.Fault { return targettest.Fault{Err: &targets.ThrottledError{Err: errTest}} })
	p.Hang = until(func() targettest.Fault { return targettest.Fault{Hang: true} })
	if options.Drainer == nil {
		// A scale-up returns draining victims to service, which the test case for slow stops does
		// not expect.
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			m.Change(ref.Name, func(target *targettest.MemoryTarget) { target.StopDelay = 1500 * time.Millisecond })
		}
		p.Writes = func() int {
			changes := len(m.Removals())
			for _, write := range m.Writes() {
				if write.From != write.To {
					changes++
				}
			}
			return changes
		}
	}
	return p
}
