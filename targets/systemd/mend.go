package systemd

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// mended is when a missing instance was last started again, and how often.
type mended struct {
	at    time.Time
	times int
}

// How hpad starts instances again: each at most so often, and how often is forgotten
// once it has stayed for a while.
const (
	mendPause = 10 * time.Second
	mendStays = 3 * mendPause
)

// mend starts the instances that should run and do not, and goes on to stop those that
// should not, in the background, unless that is under way already.
func (f *Fleet) mend(t *target, units map[int32]unit) {
	now := time.Now()
	var w work
	t.with(func(b *book) { w = b.work(units, f.known, now) })
	if w.none() || !t.tryLock() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base.Ended() {
		t.unlock()
		return
	}
	f.work.Go(func() {
		defer t.unlock()
		err := f.mendNow(t)
		t.with(func(b *book) { b.trouble = err })
	})
}

// work is what there is to do for a target.
type work struct {
	// start are indexes to start, stop those to stop, reset those whose failure is to be
	// cleared, ask refused ones to ask about again, replace those whose start the
	// manager did not begin because there were too many.
	start, stop, reset, ask, replace indexes
	// follow reports that instances are to be enabled or disabled.
	follow bool
}

func (w work) none() bool {
	return len(w.start)+len(w.stop)+len(w.reset)+len(w.ask)+len(w.replace) == 0 && !w.follow
}

func (b *book) work(units map[int32]unit, known *particulars, now time.Time) work {
	w := work{ask: b.overdue(units, now), follow: b.behind(now), replace: b.limited(units, known)}
	m := b.members
	maps.DeleteFunc(b.mended, func(index int32, done mended) bool {
		return !m.Started.has(index) || units[index].state.alive() && now.Sub(done.at) > mendStays
	})
	held := b.hold(units, now) != nil
	for _, index := range m.Started {
		tried := clock.Later(b.mended[index].at, b.refused[index].at)
		if u := units[index]; u.state == absent && !held && now.Sub(tried) >= mendPause {
			w.start = append(w.start, index)
		}
	}
	for _, index := range m.Leaving {
		switch u := units[index]; {
		case u.state == failed:
			w.reset = append(w.reset, index)
		case u.state.alive() && u.JobType != "stop":
			w.stop = append(w.stop, index)
		}
	}
	return w
}

// mendNow does the target's work. A unit that cannot be started or stopped keeps no
// other one from it; the error is that of the first.
func (f *Fleet) mendNow(t *target) error {
	c, err := f.begin(f.ctx, t)
	if err != nil {
		return err
	}
	now := time.Now()
	var w work
	t.with(func(b *book) { w = b.work(c.units, f.known, now) })
	failed := c.finish(f.ctx, w)
	if failed != nil && !goesOn(failed) {
		return failed
	}
	if err := c.askAgain(f.ctx, w.ask); err != nil {
		return cmp.Or(failed, err)
	}
	var others indexes
	for _, index := range w.replace {
		others = append(others, c.instead(index))
	}
	started, err := c.startAgain(f.ctx, w.start, others, now)
	failed = cmp.Or(failed, err)
	if c.fleet.config.Enable {
		c.alter(func(m *members) { *m = m.enabling(started).settled() })
	}
	if err := t.save(f.ctx); err != nil {
		return cmp.Or(failed, err)
	}
	if (w.follow || len(started) > 0) && (err == nil || goesOn(err)) {
		_ = c.follow(f.ctx) // it has a notice of its own
		_ = t.save(f.ctx)   // else it is saved with a later reading
	}
	return failed
}

// finish clears failures and stops what is to be stopped.
func (c *change) finish(ctx context.Context, w work) error {
	var failed error
	for _, index := range w.reset {
		err := c.fleet.manager.reset(ctx, c.template.unit(index))
		if err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
			failed = cmp.Or(failed, err)
		}
		if err != nil && !goesOn(err) {
			return err
		}
	}
	for _, index := range w.stop {
		err := c.stopOne(ctx, index)
		failed = cmp.Or(failed, err)
		if err != nil && !goesOn(err) {
			return err
		}
	}
	return failed
}

// startAgain starts missing instances, and others for the first time, more of these in
// the places of those that the manager refuses, and returns which. Where it refuses all
// of a template, the missing ones keep their places.
func (c *change) startAgain(ctx context.Context, missing, others indexes, now time.Time) (started indexes, failed error) {
	before, works := c.current(), c.anyAlive()
	for len(missing)+len(others) > 0 {
		var refused indexes
		for i, index := range slices.Concat(missing, others) {
			again := 0
			if i < len(missing) {
				again = 1
			}
			switch err := c.startOne(ctx, index); {
			case err == nil:
				works = true
				started = started.with(index)
				c.with(func(b *book) { b.mended[index] = mended{at: now, times: b.mended[index].times + again} })
			case c.passesOver(index):
				refused = append(refused, index)
			case goesOn(err):
				failed = cmp.Or(failed, err)
			default:
				return started, err
			}
		}
		missing, others = nil, nil
		for _, index := range refused {
			others = append(others, c.instead(index))
		}
	}
	if !works {
		c.alter(func(m *members) { m.Started = before.Started })
	}
	return started, failed
}

func (c *change) anyAlive() bool {
	for _, u := range c.units {
		if u.state.alive() {
			return true
		}
	}
	return false
}

// goesOn reports whether an error may be one unit's own, and others may not meet it.
func goesOn(err error) bool {
	return !errors.Is(err, errLost) && !errors.Is(err, targets.ErrForbidden) && !errors.Is(err, targets.ErrHeld) && !errors.Is(err, targets.ErrThrottled)
}
