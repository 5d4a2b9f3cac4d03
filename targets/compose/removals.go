package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/semaphore"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/ledger"
)

// A scale-down is accepted once its victims are stored: from then on they are
// terminating, whatever becomes of hpad, and are stopped and removed in the
// background. Starts under way are stored too, by name: a container that was
// created and not started when hpad ended is removed by the next one.

const (
	removalPrefix = "removing/"
	startPrefix   = "starting/"
	// removing is how many containers are being stopped at once.
	removing = 64
	// A removal that failed is tried again after a wait that doubles.
	removalRetryMin = 500 * time.Millisecond
	removalRetryMax = 30 * time.Second
)

// removals are the containers that hpad is getting rid of. They are safe for concurrent
// use.
type removals struct {
	// places is how many may be stopped at once.
	places *semaphore.Weighted
	// doomed are the victims' names, begun the starts that are stored.
	doomed byContainer[string]
	begun  *ledger.Ledger[starting]

	mu sync.Mutex
	// underWay are the services whose last starts go on. Those of all others are
	// unfinished, as those of an earlier hpad.
	underWay map[key]bool
	// working are the containers that are being removed, troubles why they are still
	// there, or what else went wrong with a service's.
	working  map[string]bool
	troubles map[string]string
}

// starting is what is stored while containers are being started.
type starting struct {
	Names []string  `json:"names"`
	Since time.Time `json:"since"`
	// Earlier are unfinished starts before these.
	Earlier []starting `json:"earlier,omitempty"`
}

// Equal reports whether other need not be stored in place of the starts.
func (s starting) Equal(other starting) bool { return reflect.DeepEqual(s, other) }

func (s starting) Empty() bool { return len(s.Names) == 0 && len(s.Earlier) == 0 }

// made reports whether a container may be one that was created for these starts, and was
// not started.
func (s starting) made(m *member) bool {
	since := time.Unix(m.Created, 0).Sub(s.Since)
	return slices.Contains(s.Names, m.name) && since >= -createdSlack && since <= unfinishedAfter+createdSlack
}

func newRemovals(store targets.Store) *removals {
	return &removals{
		places: semaphore.NewWeighted(removing), doomed: newByContainer[string](store, removalPrefix), begun: ledger.New[starting](store, startPrefix),
		underWay: map[key]bool{}, working: map[string]bool{}, troubles: map[string]string{},
	}
}

// load reads what was stored, in place of what is known.
func (r *removals) load(ctx context.Context) error {
	if err := r.doomed.Load(ctx); err != nil {
		return err
	}
	if err := r.begun.Load(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.underWay)
	return nil
}

// doom stores that containers are to go. Once it returns nil they are.
func (r *removals) doom(ctx context.Context, k key, victims []*member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, _ := r.doomed.Of(k.String())
	next := before.With(func(all ledger.Map[string]) {
		for _, m := range victims {
			all[m.ID] = m.name
		}
	})
	if len(next) == len(before) {
		return nil
	}
	if err := r.doomed.Commit(ctx, k.String(), next); err != nil {
		return fmt.Errorf("%w: store which containers of service %q are to go: %w", targets.ErrTransient, k, err)
	}
	return nil
}

// gone forgets a container that is no more. What cannot be stored costs the next
// hpad one question.
func (r *removals) gone(ctx context.Context, k key, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, id)
	r.doomed.change(ctx, k, func(all map[string]string) { delete(all, id) })
}

// begin stores the names of containers that are about to be created. A store that
// fails does not keep a service from growing.
func (r *removals) begin(ctx context.Context, k key, names []string) {
	r.start(ctx, k, true, func(before starting, unfinished []starting) starting {
		return starting{Names: names, Since: time.Now().UTC(), Earlier: unfinished}
	})
}

// end forgets them, since all are started, or gone. What is unfinished of earlier ones
// stays: the engine may still be about to create it.
func (r *removals) end(ctx context.Context, k key) {
	r.start(ctx, k, false, func(before starting, _ []starting) starting { return starting{Earlier: before.Earlier} })
}

// start changes the starts of a service, of which some are unfinished, and stores them.
func (r *removals) start(ctx context.Context, k key, underWay bool, change func(before starting, unfinished []starting) starting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, _ := r.begun.Of(k.String())
	next := change(before, before.unfinished(r.underWay[k]))
	r.underWay[k] = underWay
	r.begun.Change(k.String(), func(starting) starting { return next })
	_ = r.begun.Save(ctx, k.String())
}

// unfinished returns the starts that nobody waits for, where the last ones may be under
// way.
func (s starting) unfinished(underWay bool) []starting {
	earlier := slices.Clone(s.Earlier)
	if !underWay && len(s.Names) > 0 {
		earlier = append(earlier, starting{Names: s.Names, Since: s.Since})
	}
	return earlier
}

// abandon leaves starts stored that nobody knows the end of.
func (r *removals) abandon(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[k] = false
}

func (r *removals) ids() map[string]bool {
	all := map[string]bool{}
	for _, k := range r.doomed.services() {
		for id := range r.doomed.of(k) {
			all[id] = true
		}
	}
	return all
}

// mark marks the containers of a list that are to go, or were when the list was begun
// and may be gone by now, and once the fleet runs those that an earlier hpad created and
// did not start: until then an older fleet may be starting them.
func (r *removals) mark(l *listing, before map[string]bool, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, members := range l.services {
		doomed := r.doomed.of(k)
		begun, _ := r.begun.Of(k.String())
		unfinished := begun.unfinished(r.underWay[k])
		for _, m := range members {
			_, victim := doomed[m.ID]
			beingStarted := r.underWay[k] && slices.Contains(begun.Names, m.name)
			m.leftOver = running && m.State == container.StateCreated && !beingStarted &&
				slices.ContainsFunc(unfinished, func(one starting) bool { return one.made(m) })
			m.doomed = victim || before[m.ID] || m.leftOver
		}
	}
}

// createdSlack is by how much the engine's clock may differ from hpad's.
const createdSlack = time.Minute

// unfinishedAfter is how long a creation may take that nobody waits for.
const unfinishedAfter = 2 * time.Minute

// clear removes what an earlier hpad created and did not start.
func (f *Fleet) clear(ctx context.Context, l *listing) {
	for k, members := range l.services {
		for _, m := range members {
			if m.leftOver && f.removals.doom(ctx, k, []*member{m}) == nil {
				f.removals.found(ctx, k, m.name)
				f.remove(k, m.ID, m.name)
			}
		}
	}
	if f.running() == nil {
		f.removals.settle(ctx, l.observed)
	}
}

// found forgets unfinished starts by a name whose container is known, a victim or one
// that was just made: they leave nothing more.
func (r *removals) found(ctx context.Context, k key, name string) {
	without := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun.Change(k.String(), func(entry starting) starting {
		if !r.underWay[k] {
			entry.Names = without(entry.Names)
		}
		entry.Earlier = slices.Clone(entry.Earlier)
		for i := range entry.Earlier {
			entry.Earlier[i].Names = without(entry.Earlier[i].Names)
		}
		return entry
	})
	_ = r.begun.Save(ctx, k.String())
}

// settle forgets unfinished starts that are too old to leave anything.
func (r *removals) settle(ctx context.Context, now time.Time) {
	over := func(s starting) bool { return now.Sub(s.Since) > unfinishedAfter }
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keysOf(r.begun.Names()) {
		r.begun.Change(k.String(), func(entry starting) starting {
			if !r.underWay[k] && over(entry) {
				entry.Names = nil
			}
			entry.Earlier = slices.DeleteFunc(slices.Clone(entry.Earlier), over)
			return entry
		})
		_ = r.begun.Save(ctx, k.String())
	}
}

func (f *Fleet) resume() {
	for _, k := range f.removals.doomed.services() {
		for id, name := range f.removals.doomed.of(k) {
			f.remove(k, id, name)
		}
	}
}

// remove begins to stop and remove a container, unless that is under way.
func (f *Fleet) remove(k key, id, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.Ended() || !f.started || !f.removals.claim(id) {
		return
	}
	f.background.Go(func() {
		defer f.removals.release(id)
		f.beforeStop(k, id, name)
		wait := removalRetryMin
		for {
			err := f.removeOnce(id)
			if err == nil {
				f.removals.gone(f.ctx, k, id)
				return
			}
			f.removals.trouble(id, fmt.Sprintf("container %s cannot be removed: %v", name, err))
			select {
			case <-time.After(wait):
			case <-f.ctx.Done():
				return
			}
			wait = min(2*wait, removalRetryMax)
		}
	})
}

// claim reports whether a container is the caller's to remove now, and nobody else's.
func (r *removals) claim(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working[id] {
		return false
	}
	r.working[id] = true
	return true
}

func (r *removals) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.working, id)
}

func (r *removals) trouble(id, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.troubles[id] = text
}

func (r *removals) fine(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, id)
}

// problems returns why containers that are to go are still there.
func (r *removals) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Values(r.troubles))
}

// removeOnce stops a container with its own signal and grace period and removes it. The
// stop has no limit of its own: the engine kills when the grace is over.
func (f *Fleet) removeOnce(id string) error {
	if err := f.removals.places.Acquire(f.ctx, 1); err != nil {
		return err
	}
	defer f.removals.places.Release(1)
	c, err := f.waiting.Client(f.ctx)
	if err != nil {
		return err
	}
	if err := c.ContainerStop(f.ctx, id, container.StopOptions{}); err != nil && !errdefs.IsNotModified(err) {
		if errdefs.IsNotFound(err) {
			return nil
		}
		if !stopping(err) {
			return f.waiting.Error(err)
		}
	}
	return f.discard(id)
}

// discard removes a container at once, with the anonymous volumes that nobody
// else uses.
func (f *Fleet) discard(id string) error {
	ctx, cancel := context.WithTimeout(f.ctx, startTimeout)
	defer cancel()
	c, err := f.engine.Client(ctx)
	if err != nil {
		return err
	}
	err = c.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: !f.config.KeepAnonymousVolumes})
	switch {
	case err == nil || errdefs.IsNotFound(err):
		return nil
	case stopping(err):
		return errRemovalUnderWay
	}
	return f.engine.Error(err)
}

// stopping reports whether the engine is already removing the container.
func stopping(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "is already in progress")
}

var errRemovalUnderWay = errors.New("its removal is under way")

// errIncomplete is the error of a result that cannot be used.
var errIncomplete = errors.New("the answer lacks what every container has")

func isNotFound(err error) bool {
	return errors.Is(err, targets.ErrTargetNotFound) || errdefs.IsNotFound(err)
}
