package drain_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

// forgotten fails when anything is left of operations.
func (w *world) forgotten() {
	w.Helper()
	w.wait(time.Second)
	if left := w.fleet.Draining(w.ref); len(left) > 0 {
		w.Errorf("operations %s are left", describe(left))
	}
	if stored, err := w.store.List(w.Context(), "drain/"); err != nil || len(stored) > 0 {
		w.Errorf("the store has %q, %v, want nothing", stored, err)
	}
}

// TestRemovalWithoutDrain: what the platform says at once leaves no operation
// behind.
func TestRemovalWithoutDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, nil)
		w.scale(3)
		w.expect("removed", 3, 3, 3)
		w.expectTaken("web-0")
		w.forgotten()
		w.platform.Inject(targettest.Fault{Call: targettest.WriteCall, Err: targets.ErrForbidden, Times: 1})
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "the test asks"); !errors.Is(err, targets.ErrForbidden) {
			t.Errorf("SetReplicas() = %v, want what the platform says", err)
		}
		w.expect("refused", 3, 3, 3)
		w.forgotten()
		w.store.Fail(errSpoiled)
		if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "the test asks"); err != nil {
			t.Errorf("SetReplicas() with a broken store = %v, want that the fleet shrinks", err)
		}
		w.store.Fail(nil)
		w.expect("without a record", 2, 2, 2)
		w.expectTaken("web-0", "web-1")
		w.wait(time.Minute)
		w.forgotten()
	})
}

// TestRemovalWithoutAnswer: whatever became of a removal whose outcome is unknown, the
// same instances go and no others, although the order has others by now,
// and the process is another one.
func TestRemovalWithoutAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		fault targettest.Fault
		// late is what the platform does after the restart.
		late func(w *world) error
		// calls is how many removals there are then.
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
							t.Errorf("SetReplicas() panics with %v", value)
						}
					}()
					if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "the test asks"); !errors.Is(err, targets.ErrUnknownOutcome) {
						t.Errorf("SetReplicas() = %v, want ErrUnknownOutcome", err)
					}
				}()
				w.options.Victims = drain.Newest
				w.restart()
				if reading := w.read(); reading.SpecReplicas != 2 || slices.Contains(deleting(reading), "web-2") {
					t.Errorf("spec %d, and %v are on their way", reading.SpecReplicas, deleting(reading))
				}
				if notices := w.read().Notices; len(notices) != 1 || notices[0].Condition != drain.ConditionDraining || !strings.HasPrefix(notices[0].Message, "1 instance is being removed") {
					t.Errorf("notices %+v, want that one instance is being removed", notices)
				}
				w.scale(2)
				if c.late != nil {
					if err := c.late(w); err != nil {
						t.Fatal(err)
					}
				}
				w.wait(2 * time.Minute)
				w.expect("in the end", 2, 2, 2)
				w.expectTaken("web-0")
				if n := len(w.platform.Removals()); n != c.calls {
					t.Errorf("%d removals, want %d", n, c.calls)
				}
				if op := w.operation("web-0"); op.Outcome != drain.Terminated {
					t.Errorf("operation %+v, want it terminated", op)
				}
			})
		})
	}
}

// TestKilledWithoutDrain: a process that is killed at any step of a removal leaves it
// to the next one, which takes the same instance, once, whatever its order is.
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
				// Its work sleeps now, and takes no step between those of the removal.
				synctest.Wait()
				_ = f.SetReplicas(t.Context(), w.ref, 2, "", "the test asks") // nobody hears it
				w.wait(time.Second)
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if !first.dead() {
					t.Fatalf("a removal has no step %d", step+1)
				}
				w.options.Victims = drain.Newest
				w.open()
				w.wait(2 * time.Minute)
				if step == 0 && !after {
					w.expect("nothing was recorded", 3, 3, 3)
					w.expectTaken()
				} else {
					w.expect("after the restart", 2, 2, 2)
					w.expectTaken("web-0")
				}
				if t.Failed() {
					t.Logf("killed at step %d, after it: %v", step+1, after)
				}
			})
		}
	}
}
