package systemd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/rollout"
)

// changeTimeUnknown is a reason for rollout.ReplacementFailing: hpad cannot determine when the
// definition of a unit changed.
const changeTimeUnknown = "ChangeTimeUnknown"

const (
	// maxSurge is the number of instances above the count during a replacement.
	maxSurge = 1
	// followInterval is the wait between the steps of a replacement, which does not wait for the
	// next reading.
	followInterval = time.Second
)

// changed returns the time of the last change of a file. It is the time of the last inode change,
// because package managers and "cp -p" set an old modification time.
func (c *connection) changed(path string) (time.Time, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return time.Time{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return time.Unix(stat.Ctim.Unix()), nil
}

// compareDefinition determines whether the instance runs with an old definition. The argument known
// contains its previous details.
func (d *details) compareDefinition(properties map[string]any, known details, changed func(path string) (time.Time, error)) {
	reload, _ := properties["NeedDaemonReload"].(bool)
	d.stale = reload || known.stale && known.activation == d.activation
	d.outdated = d.stale
	dropIns, _ := properties["DropInPaths"].([]string)
	for _, path := range append(dropIns, text(properties["FragmentPath"])) {
		if path == "" || strings.Contains(path, ".control/") { // systemctl set-property applies immediately
			continue
		}
		at, err := changed(path)
		if err == nil && at.After(time.Now()) {
			err = fmt.Errorf("the change time of %s is in the future, %v: correct the clock and run touch", path, at)
		}
		if err != nil {
			d.definitionErr = err
			continue
		}
		d.outdated = d.outdated || at.After(d.started)
	}
	// Until a daemon-reload, new instances could get the old definition too.
	d.outdated = d.outdated && !reload && !d.started.IsZero()
}

// generations divides the members into instances with an old and with the current definition.
func (t *target) generations(m members, units map[int32]unit, cache *detailCache) (c rollout.Counts, old, fresh indexes) {
	now := time.Now()
	c.Want = int(m.count())
	for _, index := range m.all() {
		u := units[index]
		d, _ := cache.get(u.Name)
		instance, _ := t.instance(u, d, now)
		age := now.Sub(instance.ReadinessChanged) // is negative if the clock was set back
		ready := 0
		if instance.Readiness == policy.ReadinessTrue && (t.prober != nil || age >= rollout.SettleTime || age < 0) {
			ready = 1
		}
		if d.outdated || !d.started.IsZero() && d.started.Before(m.Restart) {
			old = append(old, index)
			c.OldReady += ready
		} else {
			fresh = append(fresh, index)
			c.FreshReady += ready
		}
	}
	c.Old, c.Fresh = len(old), len(fresh)
	return c, old, fresh
}

// replacementNotice describes a replacement, or returns nil.
func (t *target) replacementNotice(m members, units map[int32]unit, cache *detailCache) (notice *policy.Notice) {
	c, _, fresh := t.generations(m, units, cache)
	now := time.Now()
	t.with(func(s *state) {
		if c.Old > s.progress.Old() { // the definition changed again
			s.progress = rollout.Progress{}
		}
		s.progress.Observe(c, now)
		notice = s.progress.Notice(t.template.file(), t.config.ProgressDeadline, now)
	})
	if notice != nil && notice.Condition == rollout.ReplacementFailing {
		return rollout.WithReasons(notice, t.unreadyReasons(m, fresh, units, cache))
	}
	for _, index := range m.all() {
		if d, _ := cache.get(t.template.unit(index)); d.definitionErr != nil {
			return &policy.Notice{
				Condition: rollout.ReplacementFailing, Reason: changeTimeUnknown,
				Message: fmt.Sprintf("hpad cannot determine whether %s runs with its current definition (restart_on_change): %v", t.template.unit(index), d.definitionErr),
			}
		}
	}
	return notice
}

// replace changes the members in one step of a replacement. The caller then starts and stops the
// instances. An instance is added only when all removed instances have stopped, so that one free
// index, or port, above the count is sufficient.
func (c *change) replace(ctx context.Context) error {
	before := c.current()
	counts, old, fresh := c.generations(before, c.units, c.fleet.details)
	if len(old) == 0 && before.Surge == 0 {
		return nil
	}
	step := counts.Next(rollout.Strategy{Surge: maxSurge})
	victims := slices.Concat(c.victims(old, step.StopOld), c.victims(fresh, step.StopFresh))
	if len(victims)+len(before.Leaving) > 0 {
		step.StartFresh = 0
	}
	added := c.candidates(step.StartFresh)
	c.update(func(m *members) {
		m.remove(victims)
		for _, index := range added {
			m.Started = m.Started.with(index)
		}
		m.Surge += int32(len(added) - len(victims))
	})
	if err := c.commit(ctx, before); err != nil || len(victims) == 0 {
		return err
	}
	if c.config.DrainDelay > 0 {
		c.fleet.drain(c.target, victims)
	} else {
		c.fleet.options.Leave(ctx, c.fleet.refOf(c.target), 0)
	}
	return nil
}

// Restart replaces all instances of a template as after a change of the template, also without
// restart_on_change.
func (f *Fleet) Restart(ctx context.Context, ref targets.Ref) error {
	return f.base.Write(ctx, ref, "restart "+ref.Name+" of fleet "+f.base.Name, func(ctx context.Context, t *target) error {
		if err := t.lock(ctx); err != nil {
			return err
		}
		defer t.unlock()
		c, err := f.begin(ctx, t)
		if err != nil {
			return err
		}
		before := c.current()
		c.update(func(m *members) { m.Restart = time.Now() })
		if err := c.save(ctx); err != nil {
			c.update(func(m *members) { *m = before })
			return fmt.Errorf("%w: %w", targets.ErrTransient, err)
		}
		t.with(func(s *state) { s.progress = rollout.Progress{} })
		return nil
	})
}

// follow makes an additional reading after followInterval, which continues a replacement.
func (f *Fleet) follow(t *target) {
	following := false
	t.with(func(s *state) { following, s.following = s.following, true })
	if following {
		return
	}
	select {
	case <-time.After(followInterval):
	case <-f.ctx.Done():
		return
	}
	t.with(func(s *state) { s.following = false })
	_, _ = f.snapshot(f.ctx, map[targets.Ref]*target{f.refOf(t): t}) // the next reading returns the error
}
