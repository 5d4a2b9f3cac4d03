package drain

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/targets"
)

const (
	// callsAtOnce bounds the calls of drainers that are under way for one fleet,
	// removalsAtOnce the targets that instances are being removed of.
	callsAtOnce    = 16
	removalsAtOnce = 4
	// linger is how long what is drained waits for others that are about to be.
	linger = time.Second
	// conflicts is how often a removal that lost against another write is tried again
	// without a pause.
	conflicts = 5
)

// book is what a fleet knows of its operations. It has no lock: a Fleet guards it.
type book struct {
	loaded  bool
	options map[targets.Ref]Options
	targets map[targets.Ref]*target
	// readAt is when the inner fleet is read next for the work, reading that it is
	// being read.
	readAt  time.Time
	reading bool
	// calling counts the calls of drainers under way, removing the targets that
	// instances are being removed of.
	calling, removing int
	// tasks are effects to be carried out.
	tasks []task
}

// task is an effect of an operation's step.
type task struct {
	target    *target
	operation operation
	effect    effect
}

// target is what is under way with one target.
type target struct {
	ref targets.Ref
	// writing is held while the count is changed, saving while it is recorded.
	writing, saving *semaphore.Weighted
	// options are what operations go on under; they mean nothing unless the target is
	// configured.
	options    Options
	configured bool
	// wanted is the count that was decided last; it means something only while there
	// are operations.
	wanted int32
	// operations are those under way and some that ended, the oldest first.
	operations []operation
	// calls are the calls of the drainer under way, by instance.
	calls map[string]*call
	// changes counts what happened to the operations; saved is the change that the
	// store has, saveAt when saving may be tried again.
	changes, saved uint64
	saveAt         time.Time
	// removing means that instances are being removed; retry is when that may be
	// tried again, failures how often it failed in a row.
	removing bool
	retry    time.Time
	failures int
}

// call is one call of a drainer under way.
type call struct {
	cancel func()
	begun  time.Time
}

func newTarget(ref targets.Ref) *target {
	return &target{ref: ref, writing: semaphore.NewWeighted(1), saving: semaphore.NewWeighted(1), calls: map[string]*call{}}
}

// configure sets the options of all targets. Operations of a target that lost its
// drainer go on under the options that they had.
func (b *book) configure(options map[targets.Ref]Options) {
	b.options = options
	for ref, t := range b.targets {
		if next, configured := options[ref]; next.Drainer != nil || t.options.Drainer == nil || !t.active() {
			t.options, t.configured = next, configured
		}
	}
}

// add adds a target that has no operations yet, or those that were recorded.
func (b *book) add(t *target, now time.Time) {
	b.targets[t.ref] = t
	t.options, t.configured = b.options[t.ref]
	b.all(t, restarted{}, now)
	b.supersede(t, now)
}

// happen lets an event happen to the i-th operation of a target.
func (b *book) happen(t *target, i int, e event, now time.Time) {
	next, effects := step(t.operations[i], e, now)
	t.operations[i] = next
	for _, each := range effects {
		switch each.action {
		case doSave:
			t.changes++
			continue
		case doCall:
			t.calls[next.Instance.ID] = &call{begun: now}
			b.calling++
		}
		b.tasks = append(b.tasks, task{t, next, each})
	}
}

// all lets an event happen to all operations of a target, or to those with the
// given ids.
func (b *book) all(t *target, e event, now time.Time, ids ...string) {
	for i := range t.operations {
		if len(ids) == 0 || slices.Contains(ids, t.operations[i].ID) {
			b.happen(t, i, e, now)
		}
	}
}

// due is the work that a tick begins.
type due struct {
	// busy means that anything is under way.
	busy bool
	// unsaved are to be recorded, removals to have instances removed, readings to be
	// read.
	unsaved, removals []*target
	readings          []targets.Ref
}

// tick lets time go on, and returns what is to be begun.
func (b *book) tick(now time.Time) due {
	var d due
	pause := longestPause
	for ref, t := range b.targets {
		if t.active() {
			d.busy = true
			b.advance(t, now)
			if t.configured {
				d.readings = append(d.readings, ref)
				pause = min(pause, t.options.interval())
			}
			if t.removable(now) && b.removing < removalsAtOnce {
				t.removing = true
				b.removing++
				d.removals = append(d.removals, t)
			}
		}
		if t.changes != t.saved {
			d.busy = true
			if !now.Before(t.saveAt) {
				d.unsaved = append(d.unsaved, t)
			}
		}
	}
	if b.reading || now.Before(b.readAt) {
		d.readings = nil
	}
	if len(d.readings) > 0 {
		b.reading, b.readAt = true, now.Add(pause)
	}
	return d
}

// advance lets time go on for the operations of a target.
func (b *book) advance(t *target, now time.Time) {
	for i := range t.operations {
		e := tick{options: t.options, configured: t.configured, full: b.calling >= callsAtOnce}
		if c := t.calls[t.operations[i].Instance.ID]; c != nil {
			e.calling = c.begun
		}
		b.happen(t, i, e, now)
	}
}

// removable reports whether drained instances can be removed now: others are not
// about to join them, or were waited for.
func (t *target) removable(now time.Time) bool {
	if !t.configured || t.removing || now.Before(t.retry) {
		return false
	}
	found, waited, joining := false, false, false
	for _, op := range t.operations {
		switch op.State {
		case Drained:
			found = true
			waited = waited || now.Sub(op.Changed) >= linger
		case Waiting, Draining:
			joining = joining || t.calls[op.Instance.ID] != nil || !now.Before(op.next)
		}
	}
	return found && (waited || !joining)
}

// release ends a call of the drainer for an instance.
func (b *book) release(t *target, instance string) {
	delete(t.calls, instance)
	b.calling--
}

// see lets a reading of a target happen to its operations.
func (b *book) see(t *target, reading targets.Reading, observed, now time.Time) {
	if errors.Is(reading.Err, targets.ErrTargetNotFound) {
		b.all(t, lost{reading.Err}, now)
	}
	if reading.Err != nil {
		return
	}
	instances := map[string]seen{}
	for i, instance := range reading.Instances {
		instances[instance.ID] = seen{
			there: true, staying: !instance.Deleting, protected: reading.Locations != nil && reading.Locations[i].Protected,
		}
	}
	for i := range t.operations {
		e := instances[t.operations[i].Instance.ID]
		e.observed = observed
		b.happen(t, i, e, now)
	}
	b.takeBack(t, t.tally(reading, observed), "somebody else lowered the count", now)
}

// takeBack takes back what a tally has too many.
func (b *book) takeBack(t *target, c tally, why string, now time.Time) {
	if len(c.surplus) > 0 {
		b.all(t, unwanted{why}, now, c.surplus...)
	}
}

// choose returns the operations whose instances are to be removed now, by a reading
// of their target: the newest last.
func (b *book) choose(t *target, reading targets.Reading, observed, now time.Time) []operation {
	var chosen []operation
	leaving := t.tally(reading, observed).leaving
	for i, op := range t.operations {
		if op.State == Drained && leaving[op.Instance.ID] == op.ID {
			b.happen(t, i, removing{}, now)
			chosen = append(chosen, op)
		}
	}
	return chosen
}

// settle ends a removal of the operations with the given ids, if any.
func (b *book) settle(t *target, ids []string, err error, now time.Time) {
	t.removing = false
	b.removing--
	if len(ids) > 0 {
		b.all(t, removed{err}, now, ids...)
	}
	if err != nil {
		t.retry = now.Add(max(pause(t.options.interval(), t.failures), waitOf(err)))
		t.failures++
		if errors.Is(err, targets.ErrConflict) && t.failures <= conflicts {
			t.retry = now.Add(tickInterval)
		}
		b.readAt = now // what became of it is to be read
		b.all(t, delayed{err}, now)
		return
	}
	t.failures, t.retry = 0, time.Time{}
	if len(ids) == 0 {
		t.retry = now.Add(t.options.interval())
	}
}

// waitOf returns how long the platform wants to be left alone after an error.
func waitOf(err error) time.Duration {
	if throttled, ok := errors.AsType[*targets.ThrottledError](err); ok {
		return throttled.RetryAfter
	}
	return 0
}

// begin adds operations to a target.
func (b *book) begin(t *target, operations []operation, now time.Time) {
	t.operations = append(t.operations, operations...)
	b.supersede(t, now)
}

// supersede ends the undoing of instances that were chosen again since.
func (b *book) supersede(t *target, now time.Time) {
	newest := map[string]int{}
	for i, op := range t.operations {
		if older, ok := newest[op.Instance.ID]; ok {
			b.happen(t, older, superseded{}, now)
		}
		if op.State != Ended {
			newest[op.Instance.ID] = i
		}
	}
}

// active reports whether there are operations under way.
func (t *target) active() bool {
	return slices.ContainsFunc(t.operations, func(op operation) bool { return op.State != Ended })
}

// decide sets the count that is wanted from now on.
func (t *target) decide(n int32) {
	if t.wanted != n {
		t.wanted = n
		t.changes++
	}
}

// forget deletes operations as if they had never begun.
func (t *target) forget(ids []string) {
	t.operations = slices.DeleteFunc(t.operations, func(op operation) bool { return slices.Contains(ids, op.ID) })
	t.changes++
}

// prune forgets operations that ended long ago.
func (t *target) prune(now time.Time) {
	ended := 0
	for _, op := range t.operations {
		if op.State == Ended {
			ended++
		}
	}
	t.operations = slices.DeleteFunc(t.operations, func(op operation) bool {
		old := op.State == Ended && (ended > endedMost || now.Sub(op.Ended) > endedKept)
		if old {
			ended--
		}
		return old
	})
}
