package systemd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/replicas"
	"github.com/hpad/hpad/targets/restart"
	"github.com/hpad/hpad/targets/rollout"
)

// target is one template of a fleet.
type target struct {
	template template
	config   Template
	store    *replicas.Store[members]
	prober   *prober
	// writing is locked while instances are started and stopped.
	writing *semaphore.Weighted

	mu    sync.Mutex
	state state
}

// state is the current state of a target.
type state struct {
	template template
	// firstIndex is the lowest index.
	firstIndex int32
	drainDelay time.Duration
	// loaded reports whether members has been loaded.
	loaded  bool
	members members
	// busy reports whether a change is in progress. Lists from before asOf are ignored.
	busy bool
	asOf time.Time
	// refused maps instances to the manager's reasons for not starting them. repairErr is the
	// error of the last repair.
	refused   map[int32]string
	repairErr error
	// drained maps the indexes in members.Leaving to whether their drain delay has passed. An index
	// is missing until its delay starts.
	drained map[int32]bool
	// restarts maps restarted instances to their back-offs.
	restarts map[int32]restart.State
	progress rollout.Progress
	// following reports whether a reading is planned that continues a replacement.
	following bool
}

func newTarget(t template, config *Config, options targets.Env) *target {
	own := config.template(t)
	return &target{
		template: t, config: own,
		store: replicas.New[members](options.Store, membersPrefix), writing: semaphore.NewWeighted(1),
		state: state{
			template: t, firstIndex: *own.FirstIndex, drainDelay: own.DrainDelay,
			refused: map[int32]string{}, drained: map[int32]bool{}, restarts: map[int32]restart.State{},
		},
	}
}

// with calls a function with the locked state, and then updates the stored members.
func (t *target) with(do func(s *state)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(&t.state)
	if t.state.loaded {
		t.store.Change(t.template.file(), func(members) members { return t.state.members })
	}
}

func (t *target) current() (m members) {
	t.with(func(s *state) { m = s.members })
	return m
}

func (t *target) save(ctx context.Context) error {
	if err := t.store.Save(ctx, t.template.file()); err != nil {
		return fmt.Errorf("store the count of %s: %w", t.template.file(), err)
	}
	return nil
}

// lock waits until no other change is in progress.
func (t *target) lock(ctx context.Context) error {
	err := t.writing.Acquire(ctx, 1)
	if err == nil {
		t.with(func(s *state) { s.busy = true })
	}
	return err
}

// tryLock returns false if another change is in progress.
func (t *target) tryLock() bool {
	if !t.writing.TryAcquire(1) {
		return false
	}
	t.with(func(s *state) { s.busy = true })
	return true
}

func (t *target) unlock() {
	t.with(func(s *state) { s.busy, s.asOf = false, time.Now() })
	t.writing.Release(1)
}

func (t *target) unitsOf(all []unit) map[int32]unit {
	units := map[int32]unit{}
	for _, u := range all {
		if index, ok := t.template.index(u.Name); ok && index >= *t.config.FirstIndex {
			units[index] = u
		}
	}
	return units
}

// observe updates the state from a list of units. Before the first list, it loads the members.
// It ignores lists that were requested before the last change ended, except the change's own
// list (own).
func (t *target) observe(ctx context.Context, units map[int32]unit, run string, at time.Time, own bool) error {
	loaded := false
	t.with(func(s *state) { loaded = s.loaded })
	var saved members
	found := false
	if !loaded {
		var err error
		if saved, found, err = t.load(ctx); err != nil {
			return err
		}
	}
	t.with(func(s *state) {
		fresh := own || !s.loaded || !s.busy && !at.Before(s.asOf)
		switch {
		case !s.loaded && found:
			t.store.Set(t.template.file(), saved)
			s.members = saved.from(s.firstIndex)
		case !s.loaded:
			s.members = initialMembers(units, run, s.firstIndex, t.initialCount)
		}
		s.loaded = true
		if fresh {
			s.asOf, s.members = at, s.members.observe(units, run)
		}
	})
	return nil
}

// load returns the stored members, or false if none are stored.
func (t *target) load(ctx context.Context) (members, bool, error) {
	saved, found, err := t.store.Read(ctx, t.template.file())
	corrupt, isCorrupt := errors.AsType[*replicas.CorruptError](err)
	switch {
	case isCorrupt:
		return members{}, false, fmt.Errorf("%w: stored count %q of %s cannot be read: %w; give the fleet another name, or start with an empty state directory", targets.ErrUnscalable, corrupt.Text, t.template.file(), err)
	case err != nil:
		return members{}, false, fmt.Errorf("%w: load the stored count of %s: %w", targets.ErrTransient, t.template.file(), err)
	}
	return saved, found, nil
}

// initialCount returns the initial count.
func (t *target) initialCount() int32 {
	if t.config.Replicas != nil {
		return *t.config.Replicas
	}
	return 0
}
