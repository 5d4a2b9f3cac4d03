package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
)

// A scale-down is accepted once its victims are stored. From then on they are terminating, even
// if hpad exits. hpad stops and removes them in the background.

// storeVictims records the containers that hpad is going to remove. Once it returns nil, they
// are terminating. If hpad removes containers in favor of others, known contains all containers
// of the service.
func (f *Fleet) storeVictims(ctx context.Context, k key, victims, known []*member) error {
	if len(victims) == 0 {
		return nil
	}
	return f.store.commit(ctx, k, func(r *serviceRecord) {
		r.Removing = edited(r.Removing, func(all map[string]string) {
			maps.Copy(all, namesOf(victims))
		})
		for _, m := range known {
			r.Known = max(r.Known, m.Created)
		}
	})
}

// mark sets the fields doomed, fresh and spare of the containers in a list. The containers in
// before were being removed when the engine was called; their removal may have ended since.
func (s *store) mark(l *containerList, before map[string]bool) {
	known := map[string]int64{}
	for _, k := range s.services() {
		known[k.project] = max(known[k.project], s.of(k).Known)
	}
	for k, members := range l.services {
		removing := s.of(k).Removing
		for _, m := range members {
			_, victim := removing[m.ID]
			m.doomed = victim || before[m.ID]
			m.fresh = m.Labels[labelBeside] == "true" && m.Created > known[k.project] && l.observed.Sub(time.Unix(m.Created, 0)) <= freshFor
		}
		for _, m := range members {
			old := m.replaces(members)
			m.spare = old != nil && old.remains()
		}
	}
}

// replaces returns the container that a replica replaces, or nil if it no longer exists.
func (m *member) replaces(members []*member) *member {
	for _, old := range members {
		if old.ID == m.Labels[labelReplaces] {
			return old
		}
	}
	return nil
}

// resume starts the stored removals that are not in progress, which are the removals of a previous
// hpad process and failed removals.
func (f *Fleet) resume() {
	for _, k := range f.store.services() {
		f.remove(k, f.store.of(k).Removing)
	}
}

// remove drains, stops and removes containers of a service in the background, except those whose
// removal is already in progress. The argument names maps their IDs to their names.
func (f *Fleet) remove(k key, names map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names = maps.Clone(names)
	maps.DeleteFunc(names, func(id, _ string) bool { return f.removing[id] })
	if f.base.IsClosed() || !f.started || len(names) == 0 {
		return
	}
	for id := range names {
		f.removing[id] = true
	}
	f.background.Go(func() {
		drained := f.env.Leave(f.ctx, targets.Ref{Fleet: f.base.Name, Name: k.String()}, f.config.Services[k.String()].DrainDelay)
		for id, name := range names {
			f.background.Go(func() {
				defer func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					delete(f.removing, id)
				}()
				if drained {
					f.removeDrained(k, id, name)
				}
			})
		}
	})
}

// removeDrained stops and removes a container, and deletes it from the stored removals.
func (f *Fleet) removeDrained(k key, id, name string) {
	f.beforeStop(k, id, name)
	if err := f.stopAndRemove(id); err != nil {
		f.setError(id, fmt.Sprintf("container %s cannot be removed: %v", name, err))
		return
	}
	f.setError(id, "")
	f.store.update(f.ctx, k, func(r *serviceRecord) {
		r.Removing = edited(r.Removing, func(all map[string]string) { delete(all, id) })
	})
}

func namesOf(members []*member) map[string]string {
	names := map[string]string{}
	for _, m := range members {
		names[m.ID] = m.name
	}
	return names
}

// setError sets the error of an operation. "" deletes it.
func (f *Fleet) setError(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text == "" {
		delete(f.errors, name)
		return
	}
	f.errors[name] = text
}

// Problems returns the errors of removals and other background work, in order.
func (f *Fleet) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Values(f.errors))
}

// stopAndRemove stops a container with its own stop signal and grace period and removes it. The
// call has no timeout, because the engine kills the container after the grace period.
func (f *Fleet) stopAndRemove(id string) error {
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

// discard kills and removes a container and its anonymous volumes.
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
		return errRemovalInProgress
	}
	return f.engine.Error(err)
}

// stopping reports whether the error means that the engine is already removing the container.
func stopping(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "is already in progress")
}

var errRemovalInProgress = errors.New("removal is already in progress")

func isNotFound(err error) bool {
	return errors.Is(err, targets.ErrTargetNotFound) || errdefs.IsNotFound(err)
}
