package systemd

import (
	"errors"
	"time"

	"github.com/hpad/hpad/targets"
)

// mended is when a missing instance was last started again, and how often it was.
type mended struct {
	at    time.Time
	times int
}

// How hpad starts instances again: each at most so often, and the count of how
// often is forgotten once it has stayed for a while.
const (
	mendPause = 10 * time.Second
	mendStays = 3 * mendPause
)

// mend starts the instances that should run and do not, and finishes to stop those
// that should not, in the background. Where that is under way already, or there is
// nothing to do, it does nothing.
func (f *Fleet) mend(t *target, units map[int32]unit) {
	now := time.Now()
	if w := t.work(units, now); w.none() || !t.tryLock() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Ended() {
		t.unlock()
		return
	}
	f.work.Go(func() {
		defer t.unlock()
		err := f.mendNow(t)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.trouble = err
	})
}

// work is what there is to do for a target.
type work struct {
	// start are indexes to start, stop those to stop, reset those whose failure is
	// to be taken away.
	start, stop, reset indexes
}

func (w work) none() bool { return len(w.start)+len(w.stop)+len(w.reset) == 0 }

// work answers what there is to do.
func (t *target) work(units map[int32]unit, now time.Time) work {
	t.mu.Lock()
	defer t.mu.Unlock()
	var w work
	m := t.members
	for index, done := range t.mended {
		if !m.Started.has(index) || units[index].state.alive() && now.Sub(done.at) > mendStays {
			delete(t.mended, index)
		}
	}
	held := m.hold(units) != nil
	for _, index := range m.Started {
		if u := units[index]; u.state == absent && !held && now.Sub(t.mended[index].at) >= mendPause {
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

// mendNow does what there is to do. The caller holds the target.
func (f *Fleet) mendNow(t *target) error {
	c, err := f.begin(f.ctx, t)
	if err != nil {
		return err
	}
	now := time.Now()
	w := t.work(c.units, now)
	for _, index := range w.reset {
		if err := f.manager.reset(f.ctx, t.template.unit(index)); err != nil && !errors.Is(err, targets.ErrTargetNotFound) {
			return err
		}
	}
	for _, index := range w.stop {
		if err := c.stopOne(f.ctx, index); err != nil {
			return err
		}
	}
	count := t.current().count()
	var started indexes
	for i := 0; i < len(w.start); i++ {
		index := w.start[i]
		err := f.manager.start(f.ctx, t.template.unit(index))
		switch {
		case err == nil:
			c.allow(index)
		case errors.Is(err, errMasked) && len(w.start) < passedOver+int(count):
			w.start = append(w.start, c.instead(index))
			continue
		default:
			return err
		}
		started = started.with(index)
		t.mu.Lock()
		t.mended[index] = mended{at: now, times: t.mended[index].times + 1}
		t.mu.Unlock()
	}
	if err := t.save(f.ctx); err != nil {
		return err
	}
	return c.enable(f.ctx, started)
}
