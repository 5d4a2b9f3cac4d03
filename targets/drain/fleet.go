// Package drain chooses the instances that a scale-down takes, and takes their work
// away before they are terminated.
//
// [Wrap] puts it around a fleet that can take instances by name. A scale-down then
// records one [Operation] for each victim in the fleet's store and returns; from
// that moment on the victims are Deleting and not counted, also after a restart.
// In the background a [Drainer] takes their work away, and what is drained, or out
// of time, is removed from the platform. A scale-up takes draining instances back
// before it asks the platform for new ones, and waits for none of this.
//
// Where nothing is to be drained a scale-down takes its victims at once, and returns
// the platform's error. They are recorded meanwhile: when the outcome is unknown, or
// after a restart, the same instances are removed, and no others.
//
// An operation is a state machine of values: step takes it and an event to the next
// one and the effects to be carried out. A book, without lock, has the operations of
// all targets; Fleet.locked is the one place with the lock.
//
// The kinds of drainers are in the packages below this one.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Inner is the fleet that is wrapped.
type Inner interface {
	targets.Fleet
	targets.Remover
}

// Fleet is a fleet whose scale-downs take named instances, drained where that is
// configured. It is safe for concurrent use.
type Fleet struct {
	inner Inner
	store targets.Store
	clock *clock.Clock
	log   *zap.Logger
	life  targets.Life
	// started means that Start was called, and did not fail.
	started atomic.Bool
	// loading is held while the operations are read from the store; wake makes the
	// work look again at once.
	loading *semaphore.Weighted
	wake    chan struct{}
	// work ends with Close; writes, which removals under way have, a moment later.
	work, writes       context.Context
	endWork, endWrites context.CancelFunc
	running            sync.WaitGroup
	// until returns until when the platform may be asked for a removal; nil is always.
	until func() time.Time

	mu         sync.Mutex
	operations tracker
}

// Wrap returns a fleet around inner, without Options for any target. The store is
// inner's own, where the operations are kept; nil keeps none, so that a restart
// forgets them. Deadlines are kept by the daemon's clock. Wrapping has no effect
// outside of the process.
func Wrap(inner Inner, store targets.Store, steady *clock.Clock, log *zap.Logger) *Fleet {
	f := &Fleet{
		inner: inner, store: store, clock: steady, log: log,
		loading: semaphore.NewWeighted(1), wake: make(chan struct{}, 1), operations: tracker{targets: map[targets.Ref]*target{}},
	}
	f.work, f.endWork = context.WithCancel(context.Background())
	f.writes, f.endWrites = context.WithCancel(context.Background())
	return f
}

// Lease has removals asked for until a time alone, by Go's monotonic clock: where another
// process may work on the drains from then on. It is called before Start; nil is no bound.
func (f *Fleet) Lease(until func() time.Time) { f.until = until }

// Unwrap returns the inner fleet, for what else it may be: a sampler, a checker.
func (f *Fleet) Unwrap() Inner { return f.inner }

// locked is the one place with the lock: it lets do read or change the book, and
// carries out what the steps of operations ask for.
func (f *Fleet) locked(do func(tr *tracker)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.operations)
	tasks := f.operations.tasks
	f.operations.tasks = nil
	for _, task := range tasks {
		t, op, e := task.target, task.operation, task.effect
		switch e.action {
		case doCall:
			f.call(t, op)
		case doCancel:
			if cancel := t.calls[op.Instance.ID]; cancel != nil {
				cancel()
			}
		case doReport:
			if op.ID != "" {
				e.fields = append(e.fields, zap.String("instance", op.Instance.ID))
			}
			if e.level < zap.WarnLevel || f.work.Err() == nil {
				f.log.Log(e.level, e.message, append(e.fields, zap.Stringer("target", t.ref))...)
			}
		}
	}
}

// Configure sets the options of all targets. It is called before Start, and with
// each reload. Operations under way go on under the new options; those of a target
// that has lost its drainer, or is not named any more, go on under the old ones for
// as long as the process lives. After a restart the operations of a target that is
// named without a drainer are drained at once, and those of one that is not named
// are left alone, for a day after their deadline.
func (f *Fleet) Configure(options map[targets.Ref]Options) {
	f.locked(func(tr *tracker) { tr.configure(options) })
	f.wakeUp()
}

// Start starts the inner fleet, where that is to be started, and the work on
// drains, which ends with Close. It may be called again when the inner fleet could
// not be started.
func (f *Fleet) Start(ctx context.Context) error {
	if f.life.Ended() || !f.started.CompareAndSwap(false, true) {
		return errors.New("start the drains of a fleet: it was started or closed before")
	}
	if starter, ok := f.inner.(targets.Starter); ok {
		if err := starter.Start(ctx); err != nil {
			f.started.Store(false)
			return err
		}
	}
	if err := f.load(ctx); err != nil { // it is tried again with each reading
		f.log.Warn("drains under way are not known yet", zap.Error(err))
	}
	f.running.Go(f.run)
	return nil
}

// closePatience is how long calls under way may take to end when the fleet is
// closed: removals to return, and then all to end when they are cancelled.
const closePatience = 5 * time.Second

// Close ends the work on drains, and closes the inner fleet. Changes that are not recorded
// yet do not matter: a restart reads the platform before it continues.
func (f *Fleet) Close() error {
	if !f.life.End() {
		return nil
	}
	f.endWork()
	defer f.endWrites()
	defer time.AfterFunc(closePatience, f.endWrites).Stop()
	ended := make(chan struct{})
	go func() {
		f.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-time.After(2 * closePatience):
		err = fmt.Errorf("close the drains of a fleet: calls of a drainer or a platform have not returned %v after they were told to", closePatience)
	}
	if closer, ok := f.inner.(io.Closer); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// usable returns why nothing can be read or written now, or loads the operations.
func (f *Fleet) usable(ctx context.Context) error {
	if err := f.life.Usable(ctx); err != nil {
		return err
	}
	if !f.started.Load() { // at a reload the one before may still work on the drains
		return fmt.Errorf("%w: the fleet has not started yet", targets.ErrTransient)
	}
	return f.load(ctx)
}

// Snapshot reads the given targets: counts without the instances that are
// draining, which are Deleting.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := f.usable(ctx); err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	readings, err := f.inner.Snapshot(ctx, refs)
	if err != nil {
		return nil, err
	}
	readings = maps.Clone(readings) // the map is the inner fleet's
	f.locked(func(tr *tracker) {
		for ref, reading := range readings {
			t := tr.targets[ref]
			if t == nil || reading.Err != nil {
				continue
			}
			reading = t.adjust(reading, f.clock.Of(reading.Observed)).apply(reading)
			reading.Notices = slices.Concat(reading.Notices, t.notices(f.clock.Now()))
			readings[ref] = reading
		}
	})
	return readings, nil
}

// Draining returns the operations of a target: those under way, and what ended
// within the last day; the oldest first.
func (f *Fleet) Draining(ref targets.Ref) (operations []Operation) {
	f.locked(func(tr *tracker) {
		if t := tr.targets[ref]; t != nil {
			operations = make([]Operation, len(t.operations))
			for i, op := range t.operations {
				operations[i] = op
			}
		}
	})
	return operations
}
