package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
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

// removals are the containers that hpad is getting rid of. They are safe for
// concurrent use.
type removals struct {
	store targets.Store
	// places is how many may be stopped at once.
	places chan struct{}

	mu sync.Mutex
	// doomed are the victims' names by id and service.
	doomed map[key]map[string]string
	// begun are the starts that are stored, by service. Those that are unfinished,
	// as those of an earlier hpad, are not under way any more.
	begun      map[key]starting
	unfinished map[key]bool
	// working are the containers that a goroutine sees to, and troubles why they
	// are still there, or what else went wrong with a service's.
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

// made says that a container may be one that was created for these starts, and was
// not started.
func (s starting) made(m *member) bool {
	since := time.Unix(m.Created, 0).Sub(s.Since)
	return slices.Contains(s.Names, m.name) && since >= -createdSlack && since <= unfinishedAfter+createdSlack
}

func newRemovals(store targets.Store) *removals {
	return &removals{
		store: store, places: make(chan struct{}, removing), doomed: map[key]map[string]string{},
		begun: map[key]starting{}, unfinished: map[key]bool{}, working: map[string]bool{}, troubles: map[string]string{},
	}
}

// load reads what was stored, in place of what is known.
func (r *removals) load(ctx context.Context) error {
	doomed, begun, unfinished := map[key]map[string]string{}, map[key]starting{}, map[key]bool{}
	err := loadAll(ctx, r.store, removalPrefix, func(k key, stored map[string]string) { doomed[k] = stored })
	if err == nil {
		err = loadAll(ctx, r.store, startPrefix, func(k key, stored starting) {
			begun[k] = stored
			unfinished[k] = true
		})
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doomed, r.begun, r.unfinished = doomed, begun, unfinished
	return nil
}

// doom stores that containers are to go. Once it returns nil they are.
func (r *removals) doom(ctx context.Context, k key, victims []*member) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(r.doomed[k])
	if next == nil {
		next = map[string]string{}
	}
	for _, m := range victims {
		next[m.ID] = m.name
	}
	if len(next) == len(r.doomed[k]) {
		return nil
	}
	if err := r.saveDoomed(ctx, k, next); err != nil {
		return fmt.Errorf("%w: store which containers of service %q are to go: %w", targets.ErrTransient, k, err)
	}
	r.doomed[k] = next
	return nil
}

func (r *removals) saveDoomed(ctx context.Context, k key, doomed map[string]string) error {
	if len(doomed) == 0 {
		return r.store.Delete(ctx, removalPrefix+k.String())
	}
	text, err := json.Marshal(doomed)
	if err != nil {
		return err
	}
	return r.store.Save(ctx, removalPrefix+k.String(), text)
}

// gone notes that a container is no more. What cannot be stored costs the next
// hpad one question.
func (r *removals) gone(ctx context.Context, k key, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.doomed[k], id)
	delete(r.troubles, id)
	_ = r.saveDoomed(ctx, k, r.doomed[k])
	if len(r.doomed[k]) == 0 {
		delete(r.doomed, k)
	}
}

// begin stores the names of containers that are about to be created. A store that
// fails does not keep a service from growing.
func (r *removals) begin(ctx context.Context, k key, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := starting{Names: names, Since: time.Now().UTC(), Earlier: r.earlier(k)}
	delete(r.unfinished, k)
	r.saveStarting(ctx, k, entry)
}

// end notes that all of them are started, or gone. What is unfinished of earlier
// ones stays: the engine may still be about to create it.
func (r *removals) end(ctx context.Context, k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unfinished[k] = true
	r.saveStarting(ctx, k, starting{Earlier: r.begun[k].Earlier})
}

// earlier answers the unfinished starts of a service. The caller holds the lock.
func (r *removals) earlier(k key) []starting {
	entry := r.begun[k]
	earlier := slices.Clone(entry.Earlier)
	if r.unfinished[k] && len(entry.Names) > 0 {
		earlier = append(earlier, starting{Names: entry.Names, Since: entry.Since})
	}
	return earlier
}

// saveStarting keeps and stores the starts of a service, or that there are none.
// The caller holds the lock.
func (r *removals) saveStarting(ctx context.Context, k key, entry starting) {
	if len(entry.Names) == 0 && len(entry.Earlier) == 0 {
		delete(r.begun, k)
		delete(r.unfinished, k)
		_ = r.store.Delete(ctx, startPrefix+k.String())
		return
	}
	r.begun[k] = entry
	if text, err := json.Marshal(entry); err == nil {
		_ = r.store.Save(ctx, startPrefix+k.String(), text)
	}
}

// abandon leaves starts stored that nobody knows the end of.
func (r *removals) abandon(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unfinished[k] = true
}

// ids answers the containers that are to go.
func (r *removals) ids() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for _, names := range r.doomed {
		for id := range names {
			all[id] = true
		}
	}
	return all
}

// mark marks the containers of a list that are to go, or were when it was asked
// for and may be gone by now, and once the fleet runs those that an earlier hpad
// created and did not start: until then an older fleet may be starting them.
func (r *removals) mark(l *listing, before map[string]bool, running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, members := range l.services {
		for _, m := range members {
			_, doomed := r.doomed[k][m.ID]
			m.leftOver = running && r.leftOver(m)
			m.doomed = doomed || before[m.ID] || m.leftOver
		}
	}
}

// leftOver says that a container is one that was created and not started. The
// caller holds the lock.
func (r *removals) leftOver(m *member) bool {
	entry := r.begun[m.key]
	switch {
	case m.State != container.StateCreated:
		return false
	case slices.Contains(entry.Names, m.name) && !r.unfinished[m.key]:
		return false // it is being started
	}
	return slices.ContainsFunc(r.earlier(m.key), func(one starting) bool { return one.made(m) })
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
				f.removals.found(k, m.name)
				f.remove(k, m.ID, m.name)
			}
		}
	}
	if f.running() == nil {
		f.removals.settle(ctx, l.observed)
	}
}

// found notes that what was left of a start is among the victims: the next
// container of that name is somebody else's.
func (r *removals) found(k key, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	without := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
	}
	entry := r.begun[k]
	if r.unfinished[k] {
		entry.Names = without(entry.Names)
	}
	entry.Earlier = slices.Clone(entry.Earlier)
	for i := range entry.Earlier {
		entry.Earlier[i].Names = without(entry.Earlier[i].Names)
	}
	r.begun[k] = entry
}

// settle forgets unfinished starts that are too old to leave anything.
func (r *removals) settle(ctx context.Context, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	over := func(s starting) bool { return now.Sub(s.Since) > unfinishedAfter }
	for k, entry := range r.begun {
		ended := r.unfinished[k] && len(entry.Names) > 0 && over(entry)
		if !ended && !slices.ContainsFunc(entry.Earlier, over) {
			continue
		}
		if ended {
			entry.Names = nil
		}
		entry.Earlier = slices.DeleteFunc(slices.Clone(entry.Earlier), over)
		r.saveStarting(ctx, k, entry)
	}
}

// resume removes what an earlier hpad had begun to.
func (f *Fleet) resume() {
	f.removals.mu.Lock()
	doomed := map[key]map[string]string{}
	for k, names := range f.removals.doomed {
		doomed[k] = maps.Clone(names)
	}
	f.removals.mu.Unlock()
	for k, names := range doomed {
		for id, name := range names {
			f.remove(k, id, name)
		}
	}
}

// remove begins to stop and remove a container, unless that is under way.
func (f *Fleet) remove(k key, id, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Ended() || !f.started || !f.removals.claim(id) {
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
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-f.ctx.Done():
				timer.Stop()
				return
			}
			wait = min(2*wait, removalRetryMax)
		}
	})
}

// claim says that nobody sees to a container yet, and that the caller does now.
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

// fine takes back a trouble.
func (r *removals) fine(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.troubles, id)
}

// problems answers why containers that are to go are still there.
func (r *removals) problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Values(r.troubles))
}

// removeOnce stops a container with its own signal and grace period and removes
// it. The stop has no limit of its own: the engine kills when the grace is over.
func (f *Fleet) removeOnce(id string) error {
	select {
	case f.removals.places <- struct{}{}:
		defer func() { <-f.removals.places }()
	case <-f.ctx.Done():
		return f.ctx.Err()
	}
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

// stopping says that the engine is already removing the container.
func stopping(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "is already in progress")
}

// errRemovalUnderWay says that somebody else is removing the container.
var errRemovalUnderWay = errors.New("its removal is under way")

// errIncomplete says that the engine's answer cannot be used.
var errIncomplete = errors.New("the answer lacks what every container has")

// isNotFound says that what was asked for is not there.
func isNotFound(err error) bool {
	return errors.Is(err, targets.ErrTargetNotFound) || errdefs.IsNotFound(err)
}
