package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Fleet is a fleet whose scale-downs take named instances, drained where that is
// asked for. It is safe for concurrent use.
type Fleet struct {
	inner Inner
	store targets.Store
	clock *clock.Clock
	log   *zap.Logger
	// loading is held while the operations are read from the store, wake makes the
	// work look again at once, slots bounds the calls of drainers, removals those of
	// the platform that remove.
	loading  lock
	wake     chan struct{}
	slots    chan struct{}
	removals chan struct{}
	// work ends with Close; writes, which removals under way have, a moment later.
	work, writes       context.Context
	endWork, endWrites context.CancelFunc
	running            sync.WaitGroup

	mu      sync.Mutex
	loaded  bool
	started bool
	closed  bool
	options map[targets.Ref]Options
	targets map[targets.Ref]*target
	// due is when the inner fleet is read next for the work, reading that it is
	// being read.
	due     time.Time
	reading bool
}

// target is what is under way with one target. Its fields are guarded by the
// fleet's lock, but for the locks.
type target struct {
	ref   targets.Ref
	clock *clock.Clock
	// writing is held while the count is changed, saving while it is recorded.
	writing, saving lock
	// wanted is the count that was decided last; it means something only while there
	// are operations.
	wanted int32
	// operations are those under way and some that ended, the oldest first.
	operations []*Operation
	// paces are the operations' own, by id.
	paces map[string]*pace
	// calls are the calls of the drainer under way, by instance.
	calls map[string]*call
	// fallback is what operations go on under when the target lost its drainer; nil
	// when it did not.
	fallback *Options
	// changes counts what happened to the operations; saved is the change that the
	// store has.
	changes, saved uint64
	// removing says that instances are being removed; retry is when that may be
	// tried again, refused how often it failed in a row.
	removing bool
	retry    time.Time
	refused  int
	// saveAt is when saving may be tried again.
	saveAt time.Time
}

// pace is when an operation goes on, and what is known of it in this process alone.
type pace struct {
	next     time.Time
	failures int
	// touched says that the drainer was called for it.
	touched bool
	// absent is since when no reading had the instance; zero when the last one had.
	absent time.Time
	// asked is when the answer of the last removal came, direct says that a write
	// waits for it.
	asked  time.Time
	direct bool
}

// callsAtOnce bounds the calls of drainers that are under way for one fleet,
// removalsAtOnce the targets that instances are being removed of.
const (
	callsAtOnce    = 16
	removalsAtOnce = 4
)

func newTarget(ref targets.Ref, steady *clock.Clock) *target {
	return &target{ref: ref, clock: steady, writing: newLock(), saving: newLock(), paces: map[string]*pace{}, calls: map[string]*call{}}
}

// Wrap answers a fleet around inner, without Options for any target. The store is
// inner's own, where the operations are kept; nil keeps none, so that a restart
// forgets them. Deadlines are kept by the daemon's clock. Wrapping has no effect outside of the process.
func Wrap(inner Inner, store targets.Store, steady *clock.Clock, log *zap.Logger) *Fleet {
	f := &Fleet{
		inner: inner, store: store, clock: steady, log: log,
		loading: newLock(), wake: make(chan struct{}, 1), slots: make(chan struct{}, callsAtOnce), removals: make(chan struct{}, removalsAtOnce),
		options: map[targets.Ref]Options{}, targets: map[targets.Ref]*target{},
	}
	f.work, f.endWork = context.WithCancel(context.Background())
	f.writes, f.endWrites = context.WithCancel(context.Background())
	return f
}

// Unwrap answers the inner fleet, for what else it may be: a sampler, a checker.
func (f *Fleet) Unwrap() Inner { return f.inner }

// Configure sets the options of all targets. It is called before Start, and with
// each reload. Operations under way go on under the new options; those of a target
// that has lost its drainer, or is not named any more, go on under the old ones for
// as long as the process lives. After a restart the operations of a target that is
// named without a drainer are drained at once, and those of one that is not named
// are left alone, for a day after their deadline.
func (f *Fleet) Configure(options map[targets.Ref]Options) {
	next := maps.Clone(options)
	if next == nil {
		next = map[targets.Ref]Options{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref, t := range f.targets {
		switch before := f.options[ref]; {
		case next[ref].Drainer != nil || !t.active():
			t.fallback = nil
		case before.Drainer != nil:
			t.fallback = &before
		}
	}
	f.options = next
	f.poke()
}

// Start starts the inner fleet, where that is to be started, and the work on
// drains, which ends with Close. It may be called again when the inner fleet could
// not be started.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	again := f.started || f.closed
	f.started = true
	f.mu.Unlock()
	if again {
		return errors.New("start the drains of a fleet: it was started or closed before")
	}
	if starter, ok := f.inner.(targets.Starter); ok {
		if err := starter.Start(ctx); err != nil {
			f.mu.Lock()
			f.started = false // it may be tried again
			f.mu.Unlock()
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
// closed: removals to get their answer, and then all to notice that they must.
const closePatience = 5 * time.Second

// Close ends the work on drains, which the store has, and closes the inner fleet.
// An error says what did not end.
func (f *Fleet) Close() error {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	f.mu.Unlock()
	if closed {
		return nil
	}
	f.endWork()
	defer f.endWrites()
	ended := make(chan struct{})
	go func() {
		f.running.Wait()
		close(ended)
	}()
	var err error
	if !within(ended, closePatience) {
		f.endWrites()
		if !within(ended, closePatience) {
			err = fmt.Errorf("close the drains of a fleet: calls of a drainer or a platform have not returned %v after they were told to", closePatience)
		}
	}
	f.saveLast()
	if closer, ok := f.inner.(io.Closer); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// within waits until a channel is closed, at most so long, and says whether it was.
func within(ended <-chan struct{}, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// saveLast records what was not recorded yet. It is of no harm when that fails: a
// restart reads the platform before it goes on.
func (f *Fleet) saveLast() {
	f.mu.Lock()
	unsaved := slices.Collect(maps.Values(f.targets))
	unsaved = slices.DeleteFunc(unsaved, func(t *target) bool { return t.changes == t.saved })
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, t := range unsaved {
		if err := f.save(ctx, t); err != nil {
			f.log.Warn("drains are not recorded; they are read from the platform at the next start", zap.Stringer("target", t.ref), zap.Error(err))
			return
		}
	}
}

// usable says why nothing can be asked; nil when it can.
func (f *Fleet) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return fmt.Errorf("%w: the fleet is closed", targets.ErrTransient)
	case !f.started: // at a reload the one before may still work on the drains
		return fmt.Errorf("%w: the fleet has not started yet", targets.ErrTransient)
	}
	return nil
}

// Snapshot reads the given targets: counts without the instances that are
// draining, which are Deleting.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	if err := f.usable(ctx); err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	if err := f.load(ctx); err != nil {
		return nil, fmt.Errorf("read targets: %w", err)
	}
	readings, err := f.inner.Snapshot(ctx, refs)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var changed map[targets.Ref]targets.Reading
	for ref, reading := range readings {
		t := f.targets[ref]
		if t == nil || reading.Err != nil {
			continue
		}
		if changed == nil {
			changed = maps.Clone(readings) // the map is the inner fleet's
		}
		reading = t.tally(reading).apply(reading)
		reading.Notices = slices.Concat(reading.Notices, t.notices(f.clock.Now()))
		changed[ref] = reading
	}
	if changed == nil {
		return readings, nil
	}
	return changed, nil
}

// Draining answers the operations of a target: those under way, and what ended
// within the last day; the oldest first.
func (f *Fleet) Draining(ref targets.Ref) []Operation {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.targets[ref]
	if t == nil {
		return nil
	}
	operations := make([]Operation, len(t.operations))
	for i, op := range t.operations {
		operations[i] = *op
	}
	return operations
}

// Victims answers whom a scale-down by n would take of a target, by a reading of
// this fleet's, the first one first: for explanations and dry runs. It is empty
// where the platform chooses.
func (f *Fleet) Victims(ctx context.Context, ref targets.Ref, reading targets.Reading, n int32) ([]Victim, error) {
	options := f.optionsOf(ref)
	if !options.order().Named() || n <= 0 {
		return nil, nil
	}
	n -= max(0, reading.SpecReplicas-existing(reading)) // which costs nobody
	return f.pick(ctx, ref, options, reading, n)
}

// pick answers the victims of a scale-down by n.
func (f *Fleet) pick(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading, n int32) ([]Victim, error) {
	facts, err := f.facts(ctx, ref, options, reading)
	if err != nil {
		return nil, fmt.Errorf("choose instances of %s by %s: %w", ref, options.order(), err)
	}
	return options.order().Pick(reading, int(n), facts)
}

// facts answers what the order goes by.
func (f *Fleet) facts(ctx context.Context, ref targets.Ref, options Options, reading targets.Reading) (Facts, error) {
	switch options.order() {
	case LeastCPU:
		if options.CPU != nil {
			cpu, err := options.CPU(ctx, ref)
			return Facts{CPUMilli: cpu}, err
		}
		sampling, ok := f.inner.(targets.Sampler)
		if !ok {
			return Facts{}, fmt.Errorf("%w: nobody knows the use of cpu; give the autoscaler a cpu metric, or choose another order", targets.ErrUnscalable)
		}
		samples, err := sampling.Samples(ctx, []targets.Ref{ref})
		if err != nil {
			return Facts{}, err
		}
		return Facts{CPUMilli: cpuOf(samples[ref])}, nil
	case EmptyNomadNodes:
		counter := options.Allocations
		if counter == nil {
			counter, _ = options.Drainer.(Counter)
		}
		if counter == nil {
			return Facts{}, fmt.Errorf("%w: nobody knows the allocations; name the Nomad fleet, or choose another order", targets.ErrUnscalable)
		}
		instances := make([]Instance, 0, len(reading.Instances))
		for i := range reading.Instances {
			if !reading.Instances[i].Deleting {
				instances = append(instances, describe(ref, reading, i))
			}
		}
		counts, err := counter.Allocations(ctx, instances)
		return Facts{Allocations: counts}, err
	default:
		return Facts{}, nil
	}
}

// cpuOf adds up what an instance's tasks use.
func cpuOf(samples targets.Samples) map[string]int64 {
	use := map[string]int64{}
	for _, sample := range samples.Instances {
		for _, task := range sample.Tasks {
			for _, amount := range task.Usage {
				if amount.Resource == "cpu" {
					use[sample.ID] += amount.Milli
				}
			}
		}
	}
	return use
}

func (f *Fleet) optionsOf(ref targets.Ref) Options {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.options[ref]
}

// poke makes the work look again at once.
func (f *Fleet) poke() {
	select {
	case f.wake <- struct{}{}:
	default: // it will anyhow
	}
}

// active says that there are operations under way. The caller holds the lock.
func (t *target) active() bool {
	return slices.ContainsFunc(t.operations, func(op *Operation) bool { return op.State != Ended })
}
