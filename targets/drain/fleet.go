// Package drain chooses the instances that a scale-down removes, and drains them before their
// removal.
//
// [Wrap] adds this to a fleet that can remove instances by name. A scale-down then records one
// [Operation] for each victim in the fleet's store and returns. From then on, readings mark the
// victims as Deleting and exclude them from the counts, even after a restart. In the background, a
// [Drainer] drains the victims, and the fleet removes drained and overdue instances. A scale-up
// first returns draining instances to service. Without a Drainer, a scale-down records its victims
// and removes them immediately; the record ensures that the same instances are removed after an
// unknown outcome or a restart.
//
// An operation is a state machine: step returns the operation after an event, and the effects to
// perform. A tracker stores the operations of all targets; Fleet.locked guards it.
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

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Inner is the wrapped fleet.
type Inner interface {
	targets.Fleet
	targets.Remover
}

// Fleet removes instances by name in scale-downs, after a drain if one is configured. It is safe
// for concurrent use.
type Fleet struct {
	inner   Inner
	store   targets.Store
	clock   *clock.Clock
	log     *zap.Logger
	life    targets.Lifetime
	started atomic.Bool
	// A value in wake starts a pass of the background work.
	wake chan struct{}
	// work is the context of the background work, which Close cancels. writes is the context of
	// removals, which Close cancels shortly afterwards.
	work, writes       context.Context
	endWork, endWrites context.CancelFunc
	running            guard.Tasks
	// lease protects a shared fleet; nil if no other process shares it.
	lease targets.Lease

	mu         sync.Mutex
	operations tracker
}

// Wrap returns a fleet around inner. It stores the operations in store; without a store, they are
// lost at a restart. Deadlines use the daemon's clock. Wrap has no effect outside of the process.
func Wrap(inner Inner, store targets.Store, monotonic *clock.Clock, log *zap.Logger) *Fleet {
	f := &Fleet{
		inner: inner, store: store, clock: monotonic, log: log,
		wake: make(chan struct{}, 1), operations: tracker{targets: map[targets.Ref]*target{}},
	}
	f.work, f.endWork = context.WithCancel(context.Background())
	f.writes, f.endWrites = context.WithCancel(context.Background())
	return f
}

// Lease declares that other processes share the fleet. After the lease ends, another process may
// own the fleet, so this process makes no calls. Each change is recorded before the call that it
// causes. Lease must be called before Start; nil means that no other process shares the fleet.
func (f *Fleet) Lease(lease targets.Lease) { f.lease, f.operations.shared = lease, lease != nil }

func (f *Fleet) Unwrap() Inner { return f.inner }

// locked calls do with the tracker while f.mu is held, and then performs the effects of the events.
// No other method locks f.mu.
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

// Configure sets the options of all targets. It is called before Start and at each reload. Active
// operations use the new options. If their target has lost its drainer or its autoscaler, they
// keep the old options until a restart. After a restart, operations of a target without a drainer
// are considered drained, and operations of a target without an autoscaler are ignored until a
// day after their deadline.
func (f *Fleet) Configure(options map[targets.Ref]Options) {
	f.locked(func(tr *tracker) { tr.configure(options) })
	f.wakeUp()
}

// Start starts the inner fleet and the background work, which Close stops. It may be called again
// if the inner fleet returned an error.
func (f *Fleet) Start(ctx context.Context) error {
	if f.life.IsClosed() || !f.started.CompareAndSwap(false, true) {
		return errors.New("start fleet drains: already started or closed")
	}
	if starter, ok := f.inner.(targets.Starter); ok {
		if err := starter.Start(ctx); err != nil {
			f.started.Store(false)
			return err
		}
	}
	if err := f.load(ctx); err != nil { // each call tries again
		f.log.Warn("loading drains failed", zap.Error(err))
	}
	f.running.Go(f.run)
	return nil
}

// closePatience is the time for which Close waits for removals to return. Close then cancels all
// calls, and waits for them for the same time.
const closePatience = 5 * time.Second

// Close stops the background work and closes the inner fleet. Losing unsaved changes is harmless,
// because the next process reads the platform first.
func (f *Fleet) Close() error {
	if !f.life.MarkClosed() {
		return nil
	}
	f.endWork()
	defer f.endWrites()
	defer guard.AfterFunc(closePatience, f.endWrites).Stop()
	ended := make(chan struct{})
	guard.Go(func() {
		f.running.Wait()
		close(ended)
	})
	var err error
	select {
	case <-ended:
	case <-time.After(2 * closePatience):
		err = fmt.Errorf("close fleet drains: calls to a drainer or the platform have not returned %v after they were canceled", closePatience)
	}
	if closer, ok := f.inner.(io.Closer); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// usable returns an error if the fleet cannot be used, and loads the operations.
func (f *Fleet) usable(ctx context.Context) error {
	if err := f.life.Usable(ctx); err != nil {
		return err
	}
	if !f.started.Load() { // during a reload the previous fleet may still work on the drains
		return fmt.Errorf("%w: the fleet is not started yet", targets.ErrTransient)
	}
	return f.load(ctx)
}

// Snapshot reads the given targets. It marks draining instances as Deleting and excludes them from
// the counts.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := f.usable(ctx); err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	readings, err := f.inner.Snapshot(ctx, refs)
	if err != nil {
		return nil, err
	}
	readings = maps.Clone(readings) // the map belongs to the inner fleet
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

// Draining returns a target's operations, oldest first: the active operations, and those that
// ended within the last day.
func (f *Fleet) Draining(ref targets.Ref) (operations []Operation) {
	f.locked(func(tr *tracker) {
		if t := tr.targets[ref]; t != nil {
			operations = slices.Clone(t.operations)
		}
	})
	return operations
}
