package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/targets"
)

const (
	// callsAtOnce limits a fleet's concurrent drainer calls, and removalsAtOnce its concurrent
	// removals.
	callsAtOnce    = 16
	removalsAtOnce = 4
	// batchDelay is the time that a drained instance waits for other drained instances of its
	// target, so that one call removes them.
	batchDelay = time.Second
)

// tracker stores the operations of a fleet. Fleet.locked guards it.
type tracker struct {
	loaded bool
	// shared reports whether other processes may own the fleet later.
	shared  bool
	options map[targets.Ref]Options
	targets map[targets.Ref]*target
	// readAt is the time of the next reading of the inner fleet; reading reports whether one is
	// in progress.
	readAt  time.Time
	reading bool
	// calling and removing are the numbers of drainer calls and removals in progress.
	calling, removing int
	tasks             []task
}

type task struct {
	target    *target
	operation Operation
	effect    effect
}

type target struct {
	ref targets.Ref
	// writing serializes changes to the count, and saving serializes writes of the stored record.
	writing, saving *semaphore.Weighted
	options         Options
	configured      bool
	// wanted is the decided count; it is valid while there are operations.
	wanted int32
	// operations lists the active and some ended operations, oldest first.
	operations []Operation
	// calls maps instances to functions that cancel their drainer call in progress.
	calls map[string]context.CancelFunc
	// changes is the number of changes to the operations, and saved is the number of them that are
	// stored. saveAt is the time of the next attempt to save.
	changes, saved uint64
	saveAt         time.Time
	// removing reports whether a removal is in progress. retry is the time of the next removal, and
	// failures is the number of consecutive failures.
	removing bool
	retry    time.Time
	failures int
}

func newTarget(ref targets.Ref) *target {
	return &target{ref: ref, writing: semaphore.NewWeighted(1), saving: semaphore.NewWeighted(1), calls: map[string]context.CancelFunc{}}
}

// configure sets the options of all targets. Operations of a target that lost its drainer keep
// their options.
func (tr *tracker) configure(options map[targets.Ref]Options) {
	tr.options = map[targets.Ref]Options{}
	for ref, o := range options {
		tr.options[ref] = o.defaulted()
	}
	for ref, t := range tr.targets {
		if next, configured := tr.options[ref]; next.Drainer != nil || t.options.Drainer == nil || !t.active() {
			t.options, t.configured = next, configured
		}
	}
}

func (tr *tracker) add(t *target, now time.Time) {
	tr.targets[t.ref] = t
	t.options, t.configured = tr.options[t.ref]
	tr.all(t, restarted{}, now)
	tr.supersede(t, now)
}

func (tr *tracker) begin(t *target, operations []Operation, now time.Time) {
	t.operations = append(t.operations, operations...)
	tr.supersede(t, now)
}

// supersede ends the undoing of drains whose instances were chosen again.
func (tr *tracker) supersede(t *target, now time.Time) {
	newest := map[string]int{}
	for i, op := range t.operations {
		if older, ok := newest[op.Instance.ID]; ok {
			tr.apply(t, older, superseded{}, now)
		}
		if op.State != Ended {
			newest[op.Instance.ID] = i
		}
	}
}

func (tr *tracker) apply(t *target, i int, e event, now time.Time) {
	next, effects := step(t.operations[i], e, now)
	t.operations[i] = next
	for _, each := range effects {
		switch each.action {
		case doSave:
			t.changes++
			continue
		case doCall:
			t.calls[next.Instance.ID] = nil
			tr.calling++
		}
		tr.tasks = append(tr.tasks, task{t, next, each})
	}
}

func (tr *tracker) all(t *target, e event, now time.Time) {
	for i := range t.operations {
		tr.apply(t, i, e, now)
	}
}

func (tr *tracker) some(t *target, ids []string, e event, now time.Time) {
	for i := range t.operations {
		if slices.Contains(ids, t.operations[i].ID) {
			tr.apply(t, i, e, now)
		}
	}
}

func (tr *tracker) returned(t *target, op Operation, e returned, now time.Time) {
	delete(t.calls, op.Instance.ID)
	tr.calling--
	e.interval = t.options.Interval
	tr.some(t, []string{op.ID}, e, now)
}

// tick returns the targets to read and the targets to save. It reports in busy whether there is
// an active operation or an unsaved change.
func (tr *tracker) tick(now time.Time) (readings []targets.Ref, unsaved []*target, busy bool) {
	pause, due := longestPause, !now.Before(tr.readAt)
	for ref, t := range tr.targets {
		if t.active() {
			busy = true
			tr.advance(t, now)
			if t.configured && (due || tr.removable(t, now)) {
				readings = append(readings, ref)
				pause = min(pause, t.options.Interval)
			}
		}
		if t.changes != t.saved {
			busy = true
			if !now.Before(t.saveAt) {
				unsaved = append(unsaved, t)
			}
		}
	}
	if tr.reading || len(readings) == 0 {
		return nil, unsaved, busy
	}
	tr.reading = true
	if due {
		tr.readAt = now.Add(pause)
	}
	return readings, unsaved, busy
}

// advance applies the elapsed time to the operations. If the fleet is shared, it does not call the
// drainer before all changes are recorded.
func (tr *tracker) advance(t *target, now time.Time) {
	for i := range t.operations {
		_, calling := t.calls[t.operations[i].Instance.ID]
		unrecorded := tr.shared && t.changes != t.saved
		tr.apply(t, i, tick{t.options, t.configured, calling || unrecorded || tr.calling >= callsAtOnce}, now)
	}
}

func (tr *tracker) removable(t *target, now time.Time) bool {
	return t.configured && !t.removing && tr.removing < removalsAtOnce && !now.Before(t.retry) &&
		slices.ContainsFunc(t.operations, func(op Operation) bool { return op.State == Drained && now.Sub(op.Changed) >= batchDelay })
}

// removal is a request to remove instances from a target at the version of a reading.
type removal struct {
	target          *target
	operations, ids []string
	version, reason string
}

// read applies a reading to the operations of a target. It returns the removal that is due, or
// nil.
func (tr *tracker) read(t *target, reading targets.Reading, observed, now time.Time) *removal {
	tr.observe(t, reading, observed, now)
	if !tr.removable(t, now) {
		return nil
	}
	t.removing = true
	tr.removing++
	if reading.Hold != nil {
		reading.Err = &targets.HeldError{Hold: *reading.Hold}
	}
	r := &removal{target: t, version: reading.Version}
	leaving := t.adjust(reading, observed).leaving
	for i, op := range t.operations {
		if reading.Err == nil && op.State == Drained && leaving[op.Instance.ID] == op.ID {
			tr.apply(t, i, removing{}, now)
			r.operations, r.ids, r.reason = append(r.operations, op.ID), append(r.ids, op.Instance.ID), op.Decision // the newest operation's reason is used
		}
	}
	if len(r.ids) == 0 {
		tr.settle(r, reading.Err, now)
		return nil
	}
	return r
}

func (tr *tracker) settle(r *removal, err error, now time.Time) {
	t := r.target
	t.removing = false
	tr.removing--
	tr.some(t, r.operations, removed{err}, now)
	if err != nil {
		tr.tasks = append(tr.tasks, task{target: t, effect: effect{doReport, zap.WarnLevel, "removal of drained instances failed", []zap.Field{zap.Error(err)}}})
		t.retry = now.Add(max(pause(t.options.Interval, t.failures), waitOf(err)))
		t.failures++
		tr.all(t, delayed{err}, now)
		if len(r.ids) > 0 {
			tr.readAt = now // read the outcome
		}
		return
	}
	t.failures, t.retry = 0, time.Time{}
	if len(r.ids) == 0 {
		t.retry = now.Add(t.options.Interval)
	}
}

// waitOf returns the pause that the platform requires after throttling, or 0.
func waitOf(err error) time.Duration {
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled.RetryAfter
	}
	return 0
}

func (tr *tracker) observe(t *target, reading targets.Reading, observed, now time.Time) {
	if errors.Is(reading.Err, targets.ErrTargetNotFound) {
		tr.all(t, lost{reading.Err}, now)
	}
	if reading.Err != nil {
		return
	}
	instances := map[string]sighting{}
	for i, instance := range reading.Instances {
		instances[instance.ID] = sighting{
			there: true, staying: !instance.Deleting, protected: reading.Locations != nil && reading.Locations.At(i).Protected,
		}
	}
	for i := range t.operations {
		e := instances[t.operations[i].Instance.ID]
		e.observed = observed
		tr.apply(t, i, e, now)
	}
	tr.some(t, t.adjust(reading, observed).surplus, unwanted{"an external writer lowered the count"}, now)
}

func (t *target) active() bool {
	return slices.ContainsFunc(t.operations, func(op Operation) bool { return op.State != Ended })
}

func (t *target) decide(n int32) {
	if t.wanted != n && len(t.operations) > 0 {
		t.changes++
	}
	t.wanted = n
}

func (t *target) forget(ids []string) {
	t.operations = slices.DeleteFunc(t.operations, func(op Operation) bool { return slices.Contains(ids, op.ID) })
	t.changes++
}

func (t *target) prune(now time.Time) {
	excess := -endedMost
	for _, op := range t.operations {
		if op.State == Ended {
			excess++
		}
	}
	t.operations = slices.DeleteFunc(t.operations, func(op Operation) bool {
		old := op.State == Ended && (excess > 0 || now.Sub(op.Ended) > endedKept)
		if old {
			excess--
		}
		return old
	})
}

// The store contains one entry per target, so that either all victims of a decision are recorded
// or none. An invalid entry is logged and ignored.
const (
	recordPrefix = "drain/target/"
	recordFormat = 1
)

// Ended operations are kept for a day, at most 50 per target.
const (
	endedKept = 24 * time.Hour
	endedMost = 50
)

type record struct {
	Format int         `json:"format"`
	Target targets.Ref `json:"target"`
	// Wanted is the decided count.
	Wanted     int32       `json:"wanted"`
	Operations []Operation `json:"operations"`
}

func parseRecord(value []byte) (*target, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, err
	}
	if r.Format != recordFormat {
		return nil, fmt.Errorf("format %d, want %d", r.Format, recordFormat)
	}
	for i := range r.Operations {
		op := &r.Operations[i]
		if op.ID == "" || op.Instance.ID == "" {
			return nil, errors.New("an operation without an id or an instance")
		}
		op.Instance.Target = r.Target
	}
	slices.SortStableFunc(r.Operations, func(a, b Operation) int { return a.Started.Compare(b.Started) })
	t := newTarget(r.Target)
	t.wanted, t.operations = r.Wanted, r.Operations
	return t, nil
}

// load reads the operations of all targets once.
func (f *Fleet) load(ctx context.Context) error {
	loaded := f.store == nil
	f.locked(func(tr *tracker) { loaded = loaded || tr.loaded })
	if loaded {
		return nil
	}
	entries, err := f.store.List(ctx, recordPrefix)
	if err != nil {
		return fmt.Errorf("%w: load the active operations: %w", targets.ErrTransient, err)
	}
	var read []*target
	for key, value := range entries {
		t, err := parseRecord(value)
		if err == nil {
			read = append(read, t)
		} else {
			f.log.Error("invalid record of drains", zap.String("entry", key), zap.Error(err))
		}
	}
	f.locked(func(tr *tracker) {
		if tr.loaded { // by a concurrent call
			return
		}
		tr.loaded = true
		for _, t := range read {
			tr.add(t, f.clock.Now())
		}
	})
	return nil
}

// save stores the operations of a target together with new operations, which it then adds to the
// target.
func (f *Fleet) save(ctx context.Context, t *target, added ...Operation) error {
	if t.saving.Acquire(ctx, 1) != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, context.Cause(ctx))
	}
	defer t.saving.Release(1)
	var changes uint64
	unchanged := false
	r := record{Format: recordFormat, Target: t.ref}
	f.locked(func(*tracker) {
		t.prune(f.clock.Now())
		unchanged = t.changes == t.saved && len(added) == 0
		changes, r.Wanted, r.Operations = t.changes, t.wanted, slices.Concat(t.operations, added)
	})
	if unchanged {
		return nil
	}
	if err := f.write(ctx, r); err != nil {
		return fmt.Errorf("%w: record the operations of %s: %w", targets.ErrTransient, t.ref, err)
	}
	f.locked(func(tr *tracker) {
		t.saved = changes
		tr.begin(t, added, f.clock.Now())
	})
	return nil
}

// write stores a record, or deletes it if it has no operations.
func (f *Fleet) write(ctx context.Context, r record) error {
	key := recordPrefix + r.Target.Name
	switch {
	case f.store == nil:
		return nil
	case len(r.Operations) == 0:
		return f.store.Delete(ctx, key)
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return f.store.Save(ctx, key, value)
}
