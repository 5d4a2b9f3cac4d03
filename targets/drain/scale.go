package drain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// InstancesProtected is the reason of the hold of a scale-down that has nobody to
// take.
const InstancesProtected = "InstancesProtected"

// SetReplicas asks for n replicas of one target. Where instances are taken by name
// a scale-down records who is to be drained, and returns, or takes them at once where
// nothing drains them; a scale-up takes back who
// is not removed yet, and asks the inner fleet for the rest. What could be done in
// part only is a targets.PartialError.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, reason string) error {
	err := f.usable(ctx)
	if err == nil {
		err = f.load(ctx)
	}
	if err != nil {
		return fmt.Errorf("scale %s to %d replicas: %w", ref, n, err)
	}
	f.mu.Lock()
	t, options := f.targets[ref], f.options[ref]
	managed := options.order().Named() || t != nil && t.active()
	if managed && t == nil {
		t = newTarget(ref, f.clock)
		f.targets[ref] = t
	}
	f.mu.Unlock()
	if !managed {
		if strings.Contains(version, versionMark) {
			return fmt.Errorf("scale %s to %d replicas: %w: instances that were draining are gone or back", ref, n, targets.ErrConflict)
		}
		return f.inner.SetReplicas(ctx, ref, n, version, reason)
	}
	w := &write{fleet: f, target: t, options: options, n: n, version: version, reason: reason}
	err = w.do(ctx)
	if err == nil {
		return nil
	}
	if !w.named {
		err = fmt.Errorf("scale %s to %d replicas: %w", ref, n, err)
	}
	return targets.CutOff(ctx, err)
}

// write is one change of a count under way.
type write struct {
	fleet           *Fleet
	target          *target
	options         Options
	n               int32
	version, reason string
	// reading is the inner fleet's, read for this; current is what the operations make
	// of it.
	reading targets.Reading
	current tally
	// named says that the error is the inner fleet's, which names the attempt.
	named bool
}

func (w *write) do(ctx context.Context) error {
	f, t := w.fleet, w.target
	if err := t.writing.take(ctx); err != nil {
		return fmt.Errorf("%w: an earlier write has not returned yet: %w", targets.ErrTransient, err)
	}
	defer t.writing.release()
	var err error
	if w.reading, err = f.read(ctx, t.ref); err != nil {
		return err
	}
	f.mu.Lock()
	w.current = t.tally(w.reading)
	f.mu.Unlock()
	if now := w.current.version(w.reading); w.version != "" && w.version != now {
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, w.version, now)
	}
	if w.n < 0 || w.reading.Min != nil && w.n < *w.reading.Min || w.reading.Max != nil && w.n > *w.reading.Max {
		return &targets.OutOfRangeError{Min: w.reading.Min, Max: w.reading.Max, Err: fmt.Errorf("%d replicas asked for", w.n)}
	}
	switch {
	case w.n > w.current.spec:
		return w.grow(ctx)
	case w.n < w.current.spec:
		return w.shrink(ctx)
	default:
		return w.saveChanges(ctx)
	}
}

// read reads one target of the inner fleet.
func (f *Fleet) read(ctx context.Context, ref targets.Ref) (targets.Reading, error) {
	readings, err := f.inner.Snapshot(ctx, []targets.Ref{ref})
	if err != nil {
		return targets.Reading{}, err
	}
	reading, ok := readings[ref]
	if !ok {
		return targets.Reading{}, fmt.Errorf("%w: %s was not read", targets.ErrTransient, ref)
	}
	return reading, reading.Err
}

// innerVersion is what the inner fleet is to compare: what was just read, when the
// caller wants a comparison at all.
func (w *write) innerVersion() string {
	if w.version == "" {
		return ""
	}
	return w.reading.Version
}

// grow takes draining instances back, and asks the inner fleet for the rest.
func (w *write) grow(ctx context.Context) error {
	f, t := w.fleet, w.target
	f.mu.Lock()
	t.decide(w.n)
	now := t.tally(w.reading)
	t.takeBack(now.surplus, Undone, "more instances are wanted again", w.fleet.clock.Now())
	returned := int32(len(w.current.leaving) - len(now.leaving))
	// The platform's count still has those that can no longer be taken back.
	ask := w.n + int32(len(now.leaving))
	f.mu.Unlock()
	f.poke()
	if returned > 0 {
		f.log.Info("draining instances are taken back", zap.Stringer("target", t.ref), zap.Int32("instances", returned))
	}

	var err error
	if ask != w.reading.SpecReplicas {
		err = w.set(ctx, ask, int32(len(now.leaving)))
	}
	reached := w.current.spec + returned
	if err != nil && !isPartial(err) && !errors.Is(err, targets.ErrUnknownOutcome) {
		f.mu.Lock()
		t.decide(reached)
		f.mu.Unlock()
	}
	unsaved := w.saveChanges(ctx)
	switch {
	case err != nil && returned > 0 && !isPartial(err):
		return &targets.PartialError{Reached: reached, Err: err}
	case err != nil:
		return err
	}
	return unsaved
}

// set asks the inner fleet for a count, of which some instances are leaving.
func (w *write) set(ctx context.Context, n, leaving int32) error {
	err := w.fleet.inner.SetReplicas(ctx, w.target.ref, n, w.innerVersion(), w.reason)
	w.named = err != nil && !isPartial(err)
	return w.partly(err, leaving)
}

// partly corrects the count that the inner fleet says it reached by the instances
// that are leaving.
func (w *write) partly(err error, leaving int32) error {
	var partial *targets.PartialError
	if !errors.As(err, &partial) {
		return err
	}
	return &targets.PartialError{Reached: partial.Reached - leaving, Err: partial.Err}
}

func isPartial(err error) bool {
	_, ok := errors.AsType[*targets.PartialError](err)
	return ok
}

// saveChanges records what changed, if anything did. A full disk must not keep a
// target from growing: it is told as a targets.PartialError, and saved later.
func (w *write) saveChanges(ctx context.Context) error {
	f, t := w.fleet, w.target
	f.mu.Lock()
	unchanged := t.changes == t.saved || len(t.operations) == 0
	f.mu.Unlock()
	if unchanged {
		return nil
	}
	if err := f.save(ctx, t); err != nil {
		return &targets.PartialError{Reached: w.n, Err: err}
	}
	return nil
}

// shrink lowers the count by instances that do not exist first, then takes victims.
func (w *write) shrink(ctx context.Context) error {
	if hold := w.reading.Hold; hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	if !w.options.order().Named() {
		leaving := int32(len(w.current.leaving))
		return w.deciding(w.n, func() error {
			return w.set(ctx, w.n+leaving, leaving)
		})
	}
	less := w.current.spec - w.n
	unfilled := min(less, max(0, w.reading.SpecReplicas-existing(w.reading)))
	// Who is taken must be known before anything is changed.
	victims, err := w.fleet.pick(ctx, w.target.ref, w.options, w.current.apply(w.reading), less-unfilled)
	if err != nil {
		return err
	}
	missing := less - unfilled - int32(len(victims))
	if missing == less {
		return &targets.HeldError{Hold: policy.Hold{Reason: InstancesProtected, Message: "no instance can be taken: all are protected, or not known by name"}}
	}
	err = w.deciding(w.n+missing, func() error { return w.lower(ctx, unfilled, victims) })
	if err == nil && missing > 0 {
		return &targets.PartialError{Reached: w.n + missing, Err: fmt.Errorf("%d more instances are protected, or not known by name", missing)}
	}
	return err
}

// deciding makes a change of the inner fleet under the count that is wanted then,
// and under the one before when that failed altogether.
func (w *write) deciding(n int32, change func() error) error {
	f, t := w.fleet, w.target
	f.mu.Lock()
	before := t.wanted
	t.decide(n)
	f.mu.Unlock()
	err := change()
	if err != nil && !isPartial(err) && !errors.Is(err, targets.ErrUnknownOutcome) {
		f.mu.Lock()
		t.decide(before)
		f.mu.Unlock()
	}
	return err
}

// lower gives up what does not exist, then takes the victims.
func (w *write) lower(ctx context.Context, unfilled int32, victims []Victim) error {
	if unfilled > 0 {
		if err := w.giveUp(ctx, unfilled); err != nil {
			return err
		}
	}
	if len(victims) == 0 {
		return nil
	}
	take := w.record
	if w.options.Drainer == nil {
		take = w.remove
	}
	err := take(ctx, victims)
	if err != nil && unfilled > 0 && !isPartial(err) {
		return &targets.PartialError{Reached: w.current.spec - unfilled, Err: err}
	}
	return err
}

// giveUp lowers the platform's count by instances that it has not made yet.
func (w *write) giveUp(ctx context.Context, unfilled int32) error {
	f, t := w.fleet, w.target
	if err := f.inner.SetReplicas(ctx, t.ref, w.reading.SpecReplicas-unfilled, w.innerVersion(), w.reason); err != nil {
		w.named = !isPartial(err)
		return err
	}
	if w.version == "" {
		return nil
	}
	reading, err := f.read(ctx, t.ref)
	if err != nil {
		return &targets.PartialError{Reached: w.current.spec - unfilled, Err: err}
	}
	w.reading = reading
	return nil
}

// remove takes the victims at once. They are recorded before the platform is asked:
// when nobody knows what became of that, these are asked for again, and no others.
func (w *write) remove(ctx context.Context, victims []Victim) error {
	ids, operations := make([]string, len(victims)), make([]*Operation, len(victims))
	now := w.fleet.clock.Now()
	for i, victim := range victims {
		ids[i] = victim.ID
		operations[i] = w.begin(victim, now)
		operations[i].State, operations[i].Attempts = Removing, 1
	}
	w.expect(ctx, operations)
	err := targets.ErrUnknownOutcome // of a call that panics
	defer func() { w.answered(ctx, operations, err) }()
	err = w.partly(w.fleet.inner.Remove(ctx, w.target.ref, ids, w.innerVersion(), w.reason), int32(len(w.current.leaving)))
	return err
}

// expect records whom the platform is about to be asked for. A store that cannot be
// written does not keep a fleet from shrinking.
func (w *write) expect(ctx context.Context, operations []*Operation) {
	f, t := w.fleet, w.target
	err := f.save(ctx, t, operations...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.log.Warn("who is to be removed is not recorded; removed all the same", zap.Stringer("target", t.ref), zap.Error(err))
		t.operations = append(t.operations, operations...)
		t.changes++
	}
	for _, op := range operations {
		t.paces[op.ID] = &pace{direct: true}
	}
}

// answered forgets the operations of a call whose outcome is known; the others are
// gone on with by what readings show.
func (w *write) answered(ctx context.Context, operations []*Operation, err error) {
	f, t := w.fleet, w.target
	f.mu.Lock()
	defer f.mu.Unlock()
	open := errors.Is(err, targets.ErrUnknownOutcome) || err != nil && ctx.Err() != nil && !isPartial(err)
	now := w.fleet.clock.Now()
	for _, op := range operations {
		p := t.paces[op.ID]
		p.direct, p.asked = false, now
		if open {
			t.note(op, err)
		} else {
			delete(t.paces, op.ID)
		}
	}
	if !open {
		t.operations = slices.DeleteFunc(t.operations, func(op *Operation) bool { return slices.Contains(operations, op) })
		t.changes++
	}
	f.poke()
}

// record begins the drains of the victims. Nothing is begun that is not recorded.
func (w *write) record(ctx context.Context, victims []Victim) error {
	now := w.fleet.clock.Now()
	operations := make([]*Operation, len(victims))
	for i, victim := range victims {
		operations[i] = w.begin(victim, now)
	}
	if err := w.fleet.save(ctx, w.target, operations...); err != nil {
		return err
	}
	for _, op := range operations {
		w.fleet.log.Info("instance is drained, to be removed", zap.Stringer("target", w.target.ref), zap.String("instance", op.Instance.ID),
			zap.String("why", op.Reason), zap.Time("deadline", w.fleet.clock.Scale().Wall(op.Deadline)))
	}
	w.fleet.poke()
	return nil
}

// begin answers a new operation.
func (w *write) begin(victim Victim, now time.Time) *Operation {
	op := &Operation{
		ID: strings.ToLower(rand.Text()), Reason: victim.Reason, Decision: w.reason,
		Begun: now, Deadline: now.Add(w.options.deadline()), State: Waiting, Changed: now,
	}
	for i := range w.reading.Instances {
		if w.reading.Instances[i].ID == victim.ID {
			op.Instance = describe(w.target.ref, w.reading, i)
		}
	}
	op.Instance.Deadline = op.Deadline
	return op
}

// decide notes the count that is wanted from now on. The caller holds the lock.
func (t *target) decide(n int32) {
	if t.wanted != n {
		t.wanted = n
		t.changes++
	}
}

// takeBack lets instances count again; their work comes back in the background.
// The caller holds the lock.
func (t *target) takeBack(operations []*Operation, outcome Outcome, why string, now time.Time) {
	for _, op := range operations {
		op.Why, op.Outcome = why, outcome
		if t.paces[op.ID].touched {
			t.move(op, Undoing, now)
		} else {
			t.end(op, now)
		}
		if call := t.calls[op.Instance.ID]; call != nil {
			call.cancel()
		}
	}
}

// move takes an operation to a state. The caller holds the lock.
func (t *target) move(op *Operation, state State, now time.Time) {
	op.State, op.Changed = state, now
	p := t.paces[op.ID]
	p.next, p.failures, p.absent = time.Time{}, 0, time.Time{}
	t.changes++
}

// end ends an operation with its outcome. The caller holds the lock.
func (t *target) end(op *Operation, now time.Time) {
	t.move(op, Ended, now)
	op.Ended = now
}
