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

// backoff limits restarts of an instance that hpad had started before: the first happens at
// the next reading, the others at most every 10 seconds.
var backoff = restart.Backoff{First: 10 * time.Second, Longest: 10 * time.Second, Reset: 30 * time.Second}

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

// work lists the pending changes of a target.
type work struct {
	// start are the indexes to start, stop the indexes to stop, reset the indexes of failed
	// units to reset.
	start, stop, reset indexes
	// follow reports that instances are to be enabled or disabled.
	follow bool
}

func (w work) none() bool { return len(w.start)+len(w.stop)+len(w.reset) == 0 && !w.follow }

func (b *book) work(units map[int32]unit, known *particulars, now time.Time) work {
	w := work{follow: b.behind(now)}
	m := b.members
	maps.DeleteFunc(b.restarts, func(index int32, s restart.State) bool {
		return !m.Started.has(index) || units[index].state.alive() && backoff.Recovered(s, now)
	})
	held := b.hold(units, now) != nil
	for _, index := range m.Started {
		u := units[index]
		d, _ := known.of(u.Name)
		missing := u.state == absent || u.state == failed && d.limited && now.After(d.allowed)
		if missing && !held && b.restarts[index].Due(now) {
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
	var w work
	t.with(func(b *book) { w = b.work(c.units, f.known, time.Now()) })
	failed := c.finish(f.ctx, w)
	if failed != nil && !goesOn(failed) {
		return failed
	}
	started, err := c.startAgain(f.ctx, w.start)
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

// startAgain starts missing instances, and others in the places of masked ones, and returns
// the started ones.
func (c *change) startAgain(ctx context.Context, missing indexes) (started indexes, failed error) {
	for i := 0; i < len(missing); i++ {
		index := missing[i]
		err := c.startOne(ctx, index)
		if err == nil {
			started = started.with(index)
		} else if c.passesOver(index) {
			missing = append(missing, c.instead(index))
			continue
		}
		c.with(func(b *book) { b.restarts[index] = backoff.Started(b.restarts[index], time.Now()) })
		if err != nil && !goesOn(err) {
			return started, err
		}
		failed = cmp.Or(failed, err)
	}
	return started, failed
}

// goesOn reports whether an error may be one unit's own, and others may not meet it.
func goesOn(err error) bool {
	return !errors.Is(err, errLost) && !errors.Is(err, targets.ErrForbidden) && !errors.Is(err, targets.ErrHeld) && !errors.Is(err, targets.ErrThrottled)
}
