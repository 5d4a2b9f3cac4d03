package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
// terminating, even if hpad ends. hpad stops and removes them in the background.

const (
	removalPrefix = "removing/"
	// removing is the maximum number of containers that are stopped at once.
	removing = 64
	// A removal that failed is tried again after a wait that doubles.
	removalRetryMin = 500 * time.Millisecond
	removalRetryMax = 30 * time.Second
)

// removals are the containers that hpad is removing. They are safe for concurrent use.
type removals struct {
	// places limits the number of containers that are stopped at once.
	places *semaphore.Weighted
	stored *ledger.Ledger[victimList]

	mu sync.Mutex
	// working are the containers that are being removed, troubles their errors and other
	// problems of a service's containers.
	working  map[string]bool
	troubles map[string]string
}

// victimList is the stored record of a service's removals.
type victimList struct {
	// Victims are the names of the containers to remove, by ID.
	Victims ledger.Map[string] `json:"victims"`
	// Known is the creation time, in Unix seconds, of the newest container that existed when
	// hpad last chose victims. If older containers are missing later, hpad has removed them.
	Known int64 `json:"known"`
}

// Equal reports whether other need not be stored in place of the list.
func (v victimList) Equal(other victimList) bool {
	return v.Known == other.Known && v.Victims.Equal(other.Victims)
}

// Empty reports whether there is nothing to store.
func (v victimList) Empty() bool { return len(v.Victims) == 0 && v.Known == 0 }

func newRemovals(store targets.Store) *removals {
	return &removals{
		places: semaphore.NewWeighted(removing), stored: ledger.New[victimList](store, removalPrefix),
		working: map[string]bool{}, troubles: map[string]string{},
	}
}

// load replaces the lists by the stored ones.
func (r *removals) load(ctx context.Context) error {
	if err := r.stored.Load(ctx); err != nil {
		return err
	}
	for _, k := range keysOf(r.stored.Names()) {
		r.forget(ctx, k, "")
	}
	return nil
}

func (r *removals) of(k key) victimList {
	v, _ := r.stored.Of(k.String())
	return v
}

// doom stores that containers are to be removed. Once it returns nil they are terminating.
// If hpad removes containers in favor of others, known are all containers of the service.
func (r *removals) doom(ctx context.Context, k key, victims, known []*member) error {
	if len(victims) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.of(k)
	next.Victims = next.Victims.With(func(all ledger.Map[string]) {
		for _, m := range victims {
			all[m.ID] = m.name
		}
	})
	for _, m := range known {
		next.Known = max(next.Known, m.Created)
	}
	if err := r.stored.Commit(ctx, k.String(), next); err != nil {
		return fmt.Errorf("%w: store which containers of service %q are to go: %w", targets.ErrTransient, k, err)
	}
	return nil
}

// gone forgets a container that no longer exists. If that cannot be stored, the next hpad
// looks for it once.
func (r *removals) gone(ctx context.Context, k key, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, id)
	r.forget(ctx, k, id)
}

// forget forgets a container, and Known once it is too old to matter.
func (r *removals) forget(ctx context.Context, k key, id string) {
	r.stored.Change(k.String(), func(v victimList) victimList {
		v.Victims = v.Victims.With(func(all ledger.Map[string]) { delete(all, id) })
		if time.Since(time.Unix(v.Known, 0)) > 2*freshFor {
			v.Known = 0
		}
		return v
	})
	_ = r.stored.Save(ctx, k.String())
}

func (r *removals) ids() map[string]bool {
	all := map[string]bool{}
	for _, k := range keysOf(r.stored.Names()) {
		for id := range r.of(k).Victims {
			all[id] = true
		}
	}
	return all
}

// mark sets doomed, fresh and spare of the containers in a list. Containers in before were
// doomed when the engine was called, and may be forgotten by now.
func (r *removals) mark(l *listing, before map[string]bool) {
	known := map[string]int64{}
	for _, k := range keysOf(r.stored.Names()) {
		known[k.project] = max(known[k.project], r.of(k).Known)
	}
	for k, members := range l.services {
		v := r.of(k)
		there := map[string]*member{}
		for _, m := range members {
			_, victim := v.Victims[m.ID]
			m.doomed = victim || before[m.ID]
			seen := v.Known
			if m.Labels[labelBeside] == besideProject {
				seen = known[k.project]
			}
			m.fresh = m.copied && m.Created > seen && l.observed.Sub(time.Unix(m.Created, 0)) <= freshFor
			there[m.ID] = m
		}
		for _, m := range members {
			replaces := m.Labels[labelReplaces]
			old := there[replaces]
			m.spare = old != nil && old.remains() || old == nil && replaces != "" && m.fresh
		}
	}
}

func (f *Fleet) resume() {
	for _, k := range keysOf(f.removals.stored.Names()) {
		for id, name := range f.removals.of(k).Victims {
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
