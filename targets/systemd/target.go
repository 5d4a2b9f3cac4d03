package systemd

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// target is one template and what the fleet knows of its instances.
type target struct {
	template template
	config   Template
	store    targets.Store
	earlier  func(template string) (int32, bool)
	prober   *prober
	// enable says that instances are enabled and disabled.
	enable bool

	// writing is held while instances are started and stopped; a channel, so that
	// waiting for it ends with a context. What it guards is also guarded by mu.
	writing chan struct{}
	// saving is held while members are saved, so that older ones are not saved last.
	saving chan struct{}

	mu sync.Mutex
	// known says that members are: before, they have to be loaded.
	known   bool
	members members
	// unsaved says that the store has older members.
	unsaved bool
	// busy says that a change is under way, asOf since when lists may be believed
	// that contradict the members.
	busy bool
	asOf time.Time
	// refused are the instances that the manager did not start, trouble is why the
	// last mending did not succeed.
	refused map[int32]refusedStart
	trouble error
	// mended says when a missing instance was started again, and how often in a
	// row.
	mended map[int32]mended
	// told are the jobs that somebody else asked for.
	told map[int32]told
	// unfollowed is why instances could not be enabled or disabled when that was last
	// tried, which was at followed.
	unfollowed error
	followed   time.Time
}

func newTarget(t template, config *Config, options Options) *target {
	return &target{
		template: t, config: config.template(t), store: options.Store, earlier: options.Earlier, enable: config.Enable,
		writing: make(chan struct{}, 1), saving: make(chan struct{}, 1),
		refused: map[int32]refusedStart{}, mended: map[int32]mended{}, told: map[int32]told{},
	}
}

// lock holds the instances for a change.
func (t *target) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t.writing <- struct{}{}:
		t.setBusy(true)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryLock holds the instances unless somebody does already.
func (t *target) tryLock() bool {
	select {
	case t.writing <- struct{}{}:
		t.setBusy(true)
		return true
	default:
		return false
	}
}

func (t *target) unlock() {
	t.setBusy(false)
	<-t.writing
}

func (t *target) setBusy(busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = busy
	if !busy {
		t.asOf = time.Now()
	}
}

// unitsOf answers the listed instances of the target, by index.
func (t *target) unitsOf(all []unit) map[int32]unit {
	units := map[int32]unit{}
	for _, u := range all {
		if index, ok := t.template.index(u.Name); ok && index >= *t.config.FirstIndex {
			units[index] = u
		}
	}
	return units
}

// learn takes in what was listed at a time, and loads the members first where
// that was not done. A list that is older than the last change, or that was asked
// for during one, teaches nothing, unless it is the change's own.
func (t *target) learn(ctx context.Context, units map[int32]unit, run string, at time.Time, own bool) error {
	t.mu.Lock()
	known := t.known
	t.mu.Unlock()
	var saved *members
	if !known {
		var err error
		if saved, err = loadMembers(ctx, t.store, t.template); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(saved, units, run, at, own)
	return nil
}

// take takes in what was listed; saved is what the store had where the members are
// not known yet, nil for nothing. The caller holds mu.
func (t *target) take(saved *members, units map[int32]unit, run string, at time.Time, own bool) {
	switch {
	case !t.known && saved == nil:
		t.members, t.unsaved = begin(units, run, *t.config.FirstIndex, t.first), true
	case !t.known:
		t.members = saved.from(*t.config.FirstIndex)
		if !t.enable {
			t.members.Enable, t.members.Disable = nil, nil
		}
		t.unsaved = !t.members.same(*saved)
	}
	t.see(units, at)
	fresh := own || !t.known || !t.busy && !at.Before(t.asOf)
	t.known = true
	if !fresh {
		return
	}
	t.asOf = at
	t.replace(t.members.learn(units, run))
}

// first returns the count of a target of which nothing was saved and no instance runs:
// the one before the store was lost, else the configured one.
func (t *target) first() int32 {
	if t.earlier != nil {
		if count, known := t.earlier(t.template.file()); known {
			return count
		}
	}
	if t.config.Replicas != nil {
		return *t.config.Replicas
	}
	return 0
}

// replace sets the members. The caller holds mu.
func (t *target) replace(next members) {
	if !t.members.same(next) {
		t.members, t.unsaved = next, true
	}
}

// save saves members that are not. It answers why they could not be.
func (t *target) save(ctx context.Context) error {
	select {
	case t.saving <- struct{}{}:
		defer func() { <-t.saving }()
	case <-ctx.Done():
		return fmt.Errorf("save the count of %s: %w", t.template.file(), ctx.Err())
	}
	t.mu.Lock()
	unsaved, now := t.unsaved, t.members
	t.mu.Unlock()
	if !unsaved {
		return nil
	}
	if err := saveMembers(ctx, t.store, t.template, now); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved = !t.members.same(now)
	return nil
}

// current answers the members.
func (t *target) current() members {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members
}

// told is a job that somebody else asked for, and when it was first seen.
type told struct {
	job   uint32
	since time.Time
}

// holdsAtMost is how long the count is held for a job: one that takes longer, as the
// stop of an instance that may take any time, must not keep a target from scaling.
const holdsAtMost = 5 * time.Minute

// see remembers since when jobs are there that somebody else asked for. The caller holds
// mu.
func (t *target) see(units map[int32]unit, at time.Time) {
	maps.DeleteFunc(t.told, func(index int32, seen told) bool {
		return !units[index].told() || units[index].JobId != seen.job
	})
	for index, u := range units {
		if _, seen := t.told[index]; !seen && u.told() {
			t.told[index] = told{job: u.JobId, since: at}
		}
	}
}

// hold answers why the count must not be written: somebody else has just told an
// instance of the target to stop or to start anew. The caller holds mu.
func (t *target) hold(units map[int32]unit, now time.Time) *policy.Hold {
	for _, index := range t.members.all() {
		seen, known := t.told[index]
		if u := units[index]; u.told() && (!known || now.Sub(seen.since) <= holdsAtMost) {
			return &policy.Hold{Reason: JobQueued, Message: fmt.Sprintf("somebody else asked for a %s of %s, which is %s (%s)", u.JobType, u.Name, u.ActiveState, u.SubState)}
		}
	}
	return nil
}

func (m members) versionText() string { return strconv.FormatUint(m.Version, 10) }
