package systemd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
	"github.com/hpad/hpad/targets/restart"
)

// target is one template of a fleet.
type target struct {
	template template
	config   Template
	ledger   *ledger.Ledger[members]
	prober   *prober
	// writing is held while instances are started and stopped.
	writing *semaphore.Weighted

	mu   sync.Mutex
	book book
}

// book is what is known of a target's instances.
type book struct {
	template template
	// first is the lowest index; enable reports that instances are enabled and disabled.
	first  int32
	enable bool
	// known reports that members are: before, they have to be loaded.
	known   bool
	members members
	// busy reports that a change is under way, asOf is since when lists may be believed
	// that contradict the members.
	busy bool
	asOf time.Time
	// refused are the instances that the manager did not start, trouble is why the
	// last mending did not succeed.
	refused map[int32]refusedStart
	trouble error
	// restarts are the back-offs of the instances that were started again.
	restarts map[int32]restart.State
	// jobs are those that somebody else asked for.
	jobs map[int32]job
	// unfollowed is why instances could not be enabled or disabled when that was last
	// tried, which was at followed.
	unfollowed error
	followed   time.Time
}

func newTarget(t template, config *Config, options targets.Env) *target {
	own := config.template(t)
	return &target{
		template: t, config: own,
		ledger: ledger.New[members](options.Store, membersPrefix), writing: semaphore.NewWeighted(1),
		book: book{
			template: t, first: *own.FirstIndex, enable: config.Enable,
			refused: map[int32]refusedStart{}, restarts: map[int32]restart.State{}, jobs: map[int32]job{},
		},
	}
}

// with calls do with the book, which nobody else has meanwhile, and enters the members
// that it leaves into the ledger.
func (t *target) with(do func(b *book)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(&t.book)
	if t.book.known {
		t.ledger.Change(t.template.file(), func(members) members { return t.book.members })
	}
}

func (t *target) current() (m members) {
	t.with(func(b *book) { m = b.members })
	return m
}

// save stores the members where the store has others.
func (t *target) save(ctx context.Context) error {
	if err := t.ledger.Save(ctx, t.template.file()); err != nil {
		return fmt.Errorf("save the count of %s: %w", t.template.file(), err)
	}
	return nil
}

// lock holds the instances for a change.
func (t *target) lock(ctx context.Context) error {
	err := t.writing.Acquire(ctx, 1)
	if err == nil {
		t.with(func(b *book) { b.busy = true })
	}
	return err
}

// tryLock holds the instances unless somebody does already.
func (t *target) tryLock() bool {
	if !t.writing.TryAcquire(1) {
		return false
	}
	t.with(func(b *book) { b.busy = true })
	return true
}

func (t *target) unlock() {
	t.with(func(b *book) { b.busy, b.asOf = false, time.Now() })
	t.writing.Release(1)
}

// unitsOf returns the target's units, by index.
func (t *target) unitsOf(all []unit) map[int32]unit {
	units := map[int32]unit{}
	for _, u := range all {
		if index, ok := t.template.index(u.Name); ok && index >= *t.config.FirstIndex {
			units[index] = u
		}
	}
	return units
}

// learn enters what was listed at a time, and loads the members first where that was
// not done. A list that is older than the last change, or that was asked for during
// one, is of no use, unless it is the change's own.
func (t *target) learn(ctx context.Context, units map[int32]unit, run string, at time.Time, own bool) error {
	known := false
	t.with(func(b *book) { known = b.known })
	var saved members
	found := false
	if !known {
		var err error
		if saved, found, err = t.load(ctx); err != nil {
			return err
		}
	}
	t.with(func(b *book) {
		fresh := own || !b.known || !b.busy && !at.Before(b.asOf)
		switch {
		case !b.known && found:
			t.ledger.Keep(t.template.file(), saved)
			b.members = saved.from(b.first)
			if !b.enable {
				b.members.Enable, b.members.Disable = nil, nil
			}
		case !b.known:
			b.members = begin(units, run, b.first, t.first)
		}
		b.known = true
		b.enterJobs(units, at)
		if fresh {
			b.asOf, b.members = at, b.members.learn(units, run)
		}
	})
	return nil
}

// load returns the members that were saved; false where none were.
func (t *target) load(ctx context.Context) (members, bool, error) {
	saved, found, err := t.ledger.Read(ctx, t.template.file())
	garbled, isGarbled := errors.AsType[*ledger.GarbledError](err)
	switch {
	case isGarbled:
		return members{}, false, fmt.Errorf("%w: saved count %q of %s cannot be read: %w; give the fleet another name, or start with an empty state directory", targets.ErrUnscalable, garbled.Text, t.template.file(), err)
	case err != nil:
		return members{}, false, fmt.Errorf("%w: load the saved count of %s: %w", targets.ErrTransient, t.template.file(), err)
	}
	return saved, found, nil
}

// first returns the count of a target of which nothing was saved and no instance runs:
// the configured one, or 0.
func (t *target) first() int32 {
	if t.config.Replicas != nil {
		return *t.config.Replicas
	}
	return 0
}

// job is one that somebody else asked for, and when it was first seen.
type job struct {
	id    uint32
	since time.Time
}

// holdsAtMost is how long the count is held for a job: one that takes longer, as the
// stop of an instance that may take any time, must not keep a target from scaling.
const holdsAtMost = 5 * time.Minute

func (b *book) enterJobs(units map[int32]unit, at time.Time) {
	maps.DeleteFunc(b.jobs, func(index int32, seen job) bool {
		return !units[index].commanded() || units[index].JobId != seen.id
	})
	for index, u := range units {
		if _, seen := b.jobs[index]; !seen && u.commanded() {
			b.jobs[index] = job{id: u.JobId, since: at}
		}
	}
}

// hold returns why the count must not be written: somebody else has just told an
// instance of the target to stop or to start anew.
func (b *book) hold(units map[int32]unit, now time.Time) *policy.Hold {
	for _, index := range b.members.all() {
		seen, known := b.jobs[index]
		if u := units[index]; u.commanded() && (!known || now.Sub(seen.since) <= holdsAtMost) {
			return &policy.Hold{Reason: JobQueued, Message: fmt.Sprintf("somebody else asked for a %s of %s, which is %s (%s)", u.JobType, u.Name, u.ActiveState, u.SubState)}
		}
	}
	return nil
}
