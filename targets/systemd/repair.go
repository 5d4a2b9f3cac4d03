package systemd

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/restart"
)

// backoff limits the restarts of an instance that hpad has started: the first restart happens at
// the next reading, and all later restarts at most every 10 seconds.
var backoff = restart.Backoff{First: 10 * time.Second, Longest: 10 * time.Second, Reset: 30 * time.Second}

// repair starts missing instances and stops excess instances in the background, unless a change to
// the target is in progress. It drains again the instances that a previous hpad process had started
// to remove. An additional reading continues a replacement, unless it is stuck.
func (f *Fleet) repair(t *target, units map[int32]unit) {
	now := time.Now()
	var w work
	replacing, follow := false, false
	t.with(func(s *state) {
		w = s.work(units, f.details, now)
		replacing = s.progress.Old() > 0 || s.members.Surge > 0
		follow = s.progress.Old() > 0 && !s.progress.Failed(t.config.ProgressDeadline, now)
	})
	if len(w.drain) > 0 {
		f.drain(t, w.drain)
	}
	if w.none() && !replacing || !t.tryLock() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.IsClosed() {
		t.unlock()
		return
	}
	f.background.Go(func() {
		func() {
			defer t.unlock()
			f.repairLocked(t)
		}()
		if follow {
			f.follow(t)
		}
	})
}

// drain stops leaving instances in the background after the drain delay. It is not called without
// a delay.
func (f *Fleet) drain(t *target, leaving indexes) {
	setDrained := func(drained bool) {
		t.with(func(s *state) {
			for _, index := range leaving {
				s.drained[index] = drained
			}
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.IsClosed() {
		return
	}
	setDrained(false)
	f.background.Go(func() {
		if !f.options.Leave(f.ctx, f.refOf(t), t.config.DrainDelay) || t.lock(f.ctx) != nil {
			return
		}
		defer t.unlock()
		setDrained(true)
		f.repairLocked(t)
	})
}

func (f *Fleet) refOf(t *target) targets.Ref {
	return targets.Ref{Fleet: f.base.Name, Name: t.template.file()}
}

// work lists the pending changes to a target.
type work struct {
	// start and stop contain the indexes to start and to stop. reset contains the indexes of failed
	// units to reset, and drain the indexes of units to drain.
	start, stop, reset, drain indexes
}

func (w work) none() bool { return len(w.start)+len(w.stop)+len(w.reset) == 0 }

func (s *state) work(units map[int32]unit, cache *detailCache, now time.Time) work {
	var w work
	m := s.members
	maps.DeleteFunc(s.restarts, func(index int32, r restart.State) bool {
		return !m.Started.has(index) || units[index].state.alive() && backoff.Recovered(r, now)
	})
	maps.DeleteFunc(s.drained, func(index int32, _ bool) bool { return !m.Leaving.has(index) })
	for _, index := range m.Started {
		u := units[index]
		d, _ := cache.get(u.Name)
		missing := u.state == absent || u.state == failed && d.limited
		if missing && s.restarts[index].Due(now) {
			w.start = append(w.start, index)
		}
	}
	for _, index := range m.Leaving {
		switch u := units[index]; {
		case u.state == failed:
			w.reset = append(w.reset, index)
		case !u.state.alive() || u.JobType == "stop":
		case s.drainDelay <= 0 || s.drained[index]:
			w.stop = append(w.stop, index)
		default:
			if _, waiting := s.drained[index]; !waiting {
				w.drain = append(w.drain, index)
			}
		}
	}
	return w
}

// repairLocked repairs a locked target, and stores the first error.
func (f *Fleet) repairLocked(t *target) {
	err := f.tryRepair(t)
	t.with(func(s *state) { s.repairErr = err })
}

// tryRepair repairs a locked target. It continues after the error of a single unit, and returns the
// first error.
func (f *Fleet) tryRepair(t *target) error {
	c, err := f.begin(f.ctx, t)
	if err != nil {
		return err
	}
	if err := c.replace(f.ctx); err != nil {
		return err
	}
	var w work
	t.with(func(s *state) { w = s.work(c.units, f.details, time.Now()) })
	failed := c.finishStops(f.ctx, w)
	if failed != nil && !isUnitError(failed) {
		return failed
	}
	err = c.startMissing(f.ctx, w.start)
	return cmp.Or(failed, err, t.save(f.ctx))
}

// finishStops completes the pending stops: it resets failed units and stops the others.
func (c *change) finishStops(ctx context.Context, w work) error {
	var failed error
	for _, index := range w.reset {
		err := c.fleet.manager.reset(ctx, c.template.unit(index))
		if err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
			failed = cmp.Or(failed, err)
		}
		if err != nil && !isUnitError(err) {
			return err
		}
	}
	for _, index := range w.stop {
		err := c.stopOne(ctx, index)
		failed = cmp.Or(failed, err)
		if err != nil && !isUnitError(err) {
			return err
		}
	}
	return failed
}

// startMissing starts missing instances.
func (c *change) startMissing(ctx context.Context, missing indexes) error {
	var failed error
	for _, index := range missing {
		err := c.startOne(ctx, index)
		c.with(func(s *state) { s.restarts[index] = backoff.Started(s.restarts[index], time.Now()) })
		if err != nil && !isUnitError(err) {
			return err
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// startOne starts an instance. If the manager refuses to start the unit, it stores the reason.
func (c *change) startOne(ctx context.Context, index int32) error {
	err := c.fleet.manager.start(ctx, c.template.unit(index))
	refused, isRefused := errors.AsType[*refusedError](err)
	c.with(func(s *state) {
		delete(s.refused, index)
		if isRefused {
			s.refused[index] = refused.reason
		}
	})
	return err
}

// isUnitError reports whether an error may concern only one unit.
func isUnitError(err error) bool {
	return !errors.Is(err, errLost) && !errors.Is(err, targets.ErrForbidden) && !errors.Is(err, targets.ErrHeld) && !errors.Is(err, targets.ErrThrottled)
}
