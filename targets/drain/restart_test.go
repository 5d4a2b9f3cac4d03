package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/targettest"
)

// TestRestart checks that a new fleet continues with the stored operations.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0", "web-1")
		w := newWorld(t, 4, d)
		w.scale(2)
		w.restart()
		w.expect("after a restart", 2, 2, 4)
		if got := deleting(w.read()); !slices.Equal(got, []string{"web-0", "web-1"}) {
			t.Errorf("deleting instances after a restart = %v, want web-0 and web-1", got)
		}
		w.scale(3)
		w.restart()
		w.expect("after a second restart", 3, 3, 4)
		w.wait(time.Minute)
		if d.callCount("undo web-1") == 0 {
			t.Error("the drain of an instance that was returned to service was not undone")
		}
		d.done("web-0")
		w.wait(time.Minute)
		w.expectRemoved("web-0")
		w.restart()
		w.expect("in the end", 3, 3, 3)
		if op := w.operation("web-0"); op.Outcome != drain.Terminated {
			t.Errorf("operation after a restart = %+v", op)
		}
	})
}

// TestUnconfigured checks that after a restart a target without an autoscaler is not changed.
func TestUnconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer("web-0")
		w := newWorld(t, 3, d)
		w.scale(2)
		w.close()
		d.done("web-0")
		w.fleet = drain.Wrap(w.platform, w.store, clock.New(clock.System{}), zap.NewNop())
		if err := w.fleet.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wait(time.Hour)
		w.expectRemoved()
		w.wait(25 * time.Hour)
		if op := w.operation("web-0"); op.State != drain.Ended || op.Outcome != drain.Failed {
			t.Errorf("operation a day later = %+v, want Failed", op)
		}
		w.expect("after the operation failed", 3, 3, 3)
	})
}

// TestNotOwner checks that nothing is changed after the lease of a shared fleet has expired, or
// while its store rejects writes, and that the drains continue afterwards.
func TestNotOwner(t *testing.T) {
	fenced := errors.New("another member may own it")
	for _, cause := range []string{"lease", "store"} {
		t.Run(cause, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDrainer("web-0", "web-1", "web-2")
				w := newWorld(t, 5, d)
				var until atomic.Pointer[time.Time]
				lease := func(end time.Time) { until.Store(&end) }
				lease(time.Now().Add(24 * time.Hour))
				w.lease = func() time.Time { return *until.Load() }
				w.restart()
				w.scale(4) // web-0 drains
				w.wait(time.Second)
				d.fail("begin", errTest)
				w.scale(3) // web-1 waits
				w.wait(time.Second)
				d.fail("begin", nil)
				before := w.changes()
				want := targets.ErrLeaseEnded
				if cause == "lease" {
					lease(time.Now())
				} else {
					w.store.Fail(fenced)
					want = fenced
				}
				for _, n := range []int32{2, 4, 6} {
					if err := w.fleet.SetReplicas(t.Context(), w.ref, n, "", "test decision"); !errors.Is(err, want) {
						t.Errorf("SetReplicas(%d) = %v, want %v", n, err, want)
					}
				}
				d.done("web-0")
				w.wait(30 * time.Minute) // beyond the deadline of web-1
				if made := w.changes() - before; made != 0 {
					t.Errorf("changes = %d, want 0", made)
				}
				w.store.Fail(nil)
				lease(time.Now().Add(24 * time.Hour))
				w.wait(10 * time.Minute)
				if w.changes() == before {
					t.Error("the drains did not continue")
				}
			})
		})
	}
	t.Run("store, without a drainer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			w.lease = func() time.Time { return time.Now().Add(time.Minute) }
			w.restart()
			w.store.Fail(fenced)
			if err := w.fleet.SetReplicas(t.Context(), w.ref, 2, "", "test decision"); !errors.Is(err, fenced) || w.changes() != 0 {
				t.Errorf("SetReplicas() = %v with %d changes, want the error of the store and no change", err, w.changes())
			}
		})
	})
}

// dying is the store, platform and drainer of a process that is killed at its n-th step. Later
// steps have no effect.
type dying struct {
	targettest.Removable
	store   *targettest.Store
	drainer *drainer

	mu   sync.Mutex
	left int
	// after means that the last step takes effect, and only its result is lost.
	after bool
}

var errDead = errors.New("the process was killed")

// step does one step, if the process is alive.
func (d *dying) step(do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left--
	switch {
	case d.left < 0:
		return errDead
	case d.left > 0:
		return do()
	}
	if d.after {
		_ = do() // the result is lost
	}
	return errDead
}

func (d *dying) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left <= 0
}

func (d *dying) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if d.dead() {
		return nil, errDead
	}
	return d.Removable.Snapshot(ctx, refs)
}

func (d *dying) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	return d.step(func() error { return d.Removable.SetReplicas(ctx, ref, n, version, reason) })
}

func (d *dying) Remove(ctx context.Context, ref targets.Ref, ids []string, version, reason string) error {
	return d.step(func() error { return d.Removable.Remove(ctx, ref, ids, version, reason) })
}

func (d *dying) Load(ctx context.Context, key string) ([]byte, error) { return d.store.Load(ctx, key) }

func (d *dying) Save(ctx context.Context, key string, value []byte) error {
	return d.step(func() error { return d.store.Save(ctx, key, value) })
}

func (d *dying) Delete(ctx context.Context, key string) error {
	return d.step(func() error { return d.store.Delete(ctx, key) })
}

func (d *dying) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	return d.store.List(ctx, prefix)
}

func (d *dying) Begin(ctx context.Context, instance drain.Instance) error {
	return d.step(func() error { return d.drainer.Begin(ctx, instance) })
}

func (d *dying) Drained(ctx context.Context, instance drain.Instance) (bool, error) {
	done := false
	err := d.step(func() (err error) {
		done, err = d.drainer.Drained(ctx, instance)
		return err
	})
	return done, err
}

func (d *dying) Undo(ctx context.Context, instance drain.Instance) error {
	return d.step(func() error { return d.drainer.Undo(ctx, instance) })
}

func (d *dying) Finish(ctx context.Context, instance drain.Instance) error {
	return d.step(func() error { return d.drainer.Finish(ctx, instance) })
}

// TestKilledAtEveryStep checks that if the process is killed before or after any step, the next
// process continues: the instance is removed exactly once, or not at all if it was not recorded.
func TestKilledAtEveryStep(t *testing.T) {
	const most = 40 // a drain takes about 11 steps
	for _, after := range []bool{false, true} {
		steps := 1
		for killedAt(t, steps, after) {
			if steps++; steps > most {
				t.Fatalf("the drain took more than %d steps", most)
			}
		}
		if steps < 8 {
			t.Errorf("the drain took only %d steps", steps)
		}
	}
}

// killedAt kills a process at a step of a drain, and reports whether the drain reached the step.
func killedAt(t *testing.T, steps int, after bool) (killed bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDrainer()
		w := newWorld(t, 3, d)
		w.close()
		first := &dying{Removable: w.platform, store: w.store, drainer: d, left: steps, after: after}
		options := w.options
		options.Drainer = first
		f := drain.Wrap(first, first, clock.New(clock.System{}), zap.NewNop())
		f.Configure(map[targets.Ref]drain.Options{w.ref: options})
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The background work sleeps now, so the first step is the drain's.
		synctest.Wait()
		err := f.SetReplicas(t.Context(), w.ref, 2, "", "test decision")
		w.wait(time.Minute)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		killed = first.dead()
		w.open()
		w.wait(10 * time.Minute)
		if err == nil || after {
			w.expect("after the restart", 2, 2, 2)
			w.expectRemoved("web-0")
			if op := w.operation("web-0"); op.State != drain.Ended || op.Outcome != drain.Terminated {
				t.Errorf("operation = %+v, want Ended", op)
			}
		} else {
			w.expect("no operation was recorded", 3, 3, 3)
			w.expectRemoved()
		}
		if t.Failed() {
			t.Logf("killed at step %d, after its effect: %v, calls: %s", steps, after, strings.Join(d.calls, ", "))
		}
	})
	return killed
}

// TestSteppedClock steps the wall clock during a drain. The length of the drain must not change,
// even across a restart, and the drainer must receive the deadline in wall-clock time.
func TestSteppedClock(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %t", by, restart), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDrainer("web-0")
					w := newWorld(t, 3, d)
					w.scale(2)
					deadline := time.Now().Add(10 * time.Minute)
					w.wait(time.Minute)
					if got := d.deadline("web-0"); !got.Equal(deadline) {
						t.Errorf("drainer deadline = %s, want %s", got, deadline)
					}
					w.step.Store(int64(by))
					if restart {
						w.restart()
					}
					w.wait(8 * time.Minute)
					if op := w.operation("web-0"); op.State != drain.Draining {
						t.Errorf("operation a minute before its deadline = %+v, want Draining", op)
					}
					if got := d.deadline("web-0"); !got.Equal(deadline.Add(by)) {
						t.Errorf("drainer deadline after the clock step = %s, want %s", got, deadline.Add(by))
					}
					w.expectRemoved()
					w.wait(90 * time.Second)
					w.expectRemoved("web-0")
				})
			})
		}
	}
}
