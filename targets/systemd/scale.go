package systemd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// SetReplicas starts the lowest free indexes, or stops instances in the order of
// targets.CompareForRemoval. It stores the count first, so that an interrupted change is
// completed in the background. The reason is ignored, because systemd does not record it.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	what := fmt.Sprintf("scale %s of fleet %q to %d replicas", ref.Name, f.base.Name, n)
	return f.base.Write(ctx, ref, what, func(ctx context.Context, t *target) error {
		if n < 0 {
			return &targets.OutOfRangeError{Min: new(int32), Err: fmt.Errorf("%d is less than 0", n)}
		}
		return f.setReplicas(ctx, t, n, version)
	})
}

func (f *Fleet) setReplicas(ctx context.Context, t *target, n int32, version string) error {
	if err := t.lock(ctx); err != nil {
		return err
	}
	defer t.unlock()
	c, err := f.begin(ctx, t)
	if err != nil {
		return err
	}
	m := t.current()
	switch {
	case version != "" && version != m.versionText():
		return fmt.Errorf("%w: version %s is now %s", targets.ErrConflict, version, m.versionText())
	case n != m.count():
		if err := c.scale(ctx, n); err != nil {
			return err
		}
	}
	// A full disk must not prevent a scale-up.
	if err := t.save(ctx); err != nil {
		return &targets.PartialError{Reached: n, Err: targets.WithClass(targets.ErrTransient, fmt.Errorf("%w; after a restart, hpad may start with a different count", err))}
	}
	return nil
}

// change starts or stops instances of one target, which is locked.
type change struct {
	*target
	fleet *Fleet
	// units were listed after the target was locked.
	units map[int32]unit
}

// begin lists a target's units for a change.
func (f *Fleet) begin(ctx context.Context, t *target) (*change, error) {
	s, err := f.list(ctx, map[targets.Ref]*target{{Fleet: f.base.Name, Name: t.template.file()}: t}, true)
	if err == nil {
		err = s.unusable[t.template]
	}
	if err != nil {
		return nil, err
	}
	units := s.units[t.template]
	return &change{target: t, fleet: f, units: units}, t.observe(ctx, units, s.run, s.at, true)
}

// scale sets the count, which the caller stores.
func (c *change) scale(ctx context.Context, n int32) error {
	before := c.current()
	if more := n - before.count(); more > 0 {
		return c.scaleUp(ctx, int(more), before)
	}
	return c.scaleDown(ctx, int(before.count()-n), before)
}

func (c *change) scaleUp(ctx context.Context, n int, before members) error {
	chosen := c.candidates(n)
	c.update(func(m *members) {
		for _, index := range chosen {
			m.Started = m.Started.with(index)
		}
		m.Version++
	})
	if err := c.commit(ctx, before); err != nil {
		return err
	}
	return c.startAll(ctx, chosen, before)
}

func (c *change) scaleDown(ctx context.Context, n int, before members) error {
	victims := c.victims(c.current().all(), n)
	if c.config.DrainDelay > 0 { // an error of the later stop does not reach the caller
		if err := c.fleet.manager.checkPermission(ctx, c.template.unit(victims[0])); err != nil {
			return err
		}
	}
	c.update(func(m *members) {
		m.remove(victims)
		m.Version++
	})
	if err := c.commit(ctx, before); err != nil {
		return err
	}
	if c.config.DrainDelay > 0 {
		c.fleet.drain(c.target, victims)
		return nil
	}
	c.fleet.options.Leave(ctx, c.fleet.refOf(c.target), 0)
	return c.stopAll(ctx, victims, before)
}

func (c *change) update(change func(m *members)) {
	c.with(func(s *state) { change(&s.members) })
}

// commit stores the new members before the change. If the write fails, a later reading retries
// it. If ctx has ended as well, the change is canceled.
func (c *change) commit(ctx context.Context, before members) error {
	err := c.save(ctx)
	if err == nil || ctx.Err() == nil {
		return nil
	}
	c.update(func(m *members) { *m = before })
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

func (c *change) candidates(n int) (chosen indexes) {
	c.with(func(s *state) {
		for index := s.firstIndex; len(chosen) < n; index++ {
			if c.units[index].state == absent && !s.members.has(index) && !s.members.Leaving.has(index) {
				chosen = append(chosen, index)
			}
		}
	})
	return chosen
}

// startAll starts instances. If the manager refuses to start a unit while other instances are
// running, the instance keeps its index, and repair starts it later. After any other error, or
// if no instance is running, startAll returns the error, as a targets.PartialError if it has
// started some instances.
func (c *change) startAll(ctx context.Context, chosen indexes, before members) error {
	started := before
	for _, index := range chosen {
		err := c.startOne(ctx, index)
		_, refused := errors.AsType[*refusedError](err)
		switch {
		case err == nil || refused && c.anyAlive():
			started.Started = started.Started.with(index)
			if refused {
				c.with(func(s *state) { s.restarts[index] = backoff.Started(s.restarts[index], time.Now()) })
			}
		case errors.Is(err, errLost):
			return fmt.Errorf("%w: %w; hpad starts the missing instances once the manager responds", targets.ErrUnknownOutcome, err)
		default:
			return c.settle(ctx, started, before, err)
		}
	}
	return nil
}

func (c *change) anyAlive() bool {
	for _, u := range c.units {
		if u.state.alive() {
			return true
		}
	}
	return false
}

// settle records the members that the change has reached, and returns the error that prevented the
// rest of the change.
func (c *change) settle(ctx context.Context, reached, before members, err error) error {
	if reached.count() == before.count() {
		c.update(func(m *members) { *m = before })
	} else {
		c.update(func(m *members) { m.Started, m.Found, m.Leaving = reached.Started, reached.Found, reached.Leaving })
		err = &targets.PartialError{Reached: reached.count(), Err: err}
	}
	_ = c.save(ctx) // the next reading retries
	return err
}

// victims returns the first n of the given instances in the order of their removal. Among equal
// instances, the highest index comes first.
func (c *change) victims(among indexes, n int) indexes {
	now := time.Now()
	instances := make(map[int32]policy.Instance, len(among))
	for _, index := range among {
		u := c.units[index]
		d, _ := c.fleet.details.get(u.Name)
		instance, _ := c.instance(u, d, now)
		instance.Deleting = u.state == stopping || u.state == absent
		instances[index] = instance
	}
	slices.SortFunc(among, func(a, b int32) int {
		first, second := instances[a], instances[b]
		return cmp.Or(targets.CompareForRemoval(&first, &second, 0), cmp.Compare(b, a))
	})
	return among[:max(0, n)]
}

// stopAll stops victims until the first error.
func (c *change) stopAll(ctx context.Context, victims indexes, before members) error {
	reached := before
	for _, index := range victims {
		switch err := c.stopOne(ctx, index); {
		case err == nil:
			reached.Started, reached.Found = reached.Started.without(index), reached.Found.without(index)
			reached.Leaving = reached.Leaving.with(index)
		case errors.Is(err, errLost):
			return fmt.Errorf("%w: %w; hpad stops the others once the manager responds", targets.ErrUnknownOutcome, err)
		default:
			return c.settle(ctx, reached, before, err)
		}
	}
	return nil
}

// stopOne stops one instance. If the instance has failed, stopOne also resets it, because a
// failed unit occupies its index.
func (c *change) stopOne(ctx context.Context, index int32) error {
	u := c.units[index]
	if u.state == absent {
		return nil
	}
	err := c.fleet.manager.stop(ctx, u.Name)
	if err == nil && u.state == failed {
		err = c.fleet.manager.reset(ctx, u.Name)
	}
	if errors.Is(err, targets.ErrTargetNotFound) {
		return nil // the unit has already stopped
	}
	return err
}
