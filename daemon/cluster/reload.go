package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/config"
)

// loaded returns the configuration that a daemon loads now; nil before the first.
func (c *Cluster) loaded() *configuration {
	if loading := c.loading.Load(); loading != nil {
		return loading
	}
	return c.active.Load()
}

// Reload reads the configuration again, activates it in all daemons or in none, and returns the
// changes.
func (c *Cluster) Reload(ctx context.Context) ([]config.Change, error) { return c.reload(ctx, false) }

// reload is Reload, or only returns the changes if trial is true.
func (c *Cluster) reload(ctx context.Context, trial bool) ([]config.Change, error) {
	c.reloads.Lock()
	defer c.reloads.Unlock()
	if c.active.Load() == nil {
		return nil, errors.New("hpad is starting")
	}
	whole, err := c.options.Load()
	if err != nil {
		return nil, err
	}
	next := separate(whole)
	var runs []*run
	for fleet := range next.fleets { // the runs of other fleets are about to end
		if r := c.runOf(fleet); r != nil && r.daemon.Load() != nil {
			runs = append(runs, r)
		}
	}
	// all calls a method of all daemons, until one fails.
	all := func(do func(*daemon.Daemon, context.Context) ([]config.Change, error)) ([]config.Change, error) {
		changes, err := do(c.own, ctx)
		for _, r := range runs {
			if err != nil {
				return nil, err
			}
			var some []config.Change
			some, err = r.reload(ctx, do)
			changes = append(changes, some...)
		}
		return changes, err
	}
	c.loading.Store(next)
	defer c.loading.Store(nil)
	changes, err := all((*daemon.Daemon).ReloadChanges) // activate nothing that one of them rejects
	if err != nil || trial {
		return unique(changes), err
	}
	if _, err := all((*daemon.Daemon).Reload); err != nil {
		return nil, err
	}
	c.active.Store(next)
	c.mu.RLock()
	current := slices.Collect(maps.Values(c.runs))
	c.mu.RUnlock()
	for _, r := range current {
		if !slices.Contains(runs, r) && r.daemon.Load() != nil { // started meanwhile
			if _, err := r.reload(ctx, (*daemon.Daemon).Reload); err != nil {
				r.log.Warn("reload failed, restarting the fleet", zap.NamedError("err", err))
				r.end("the configuration has changed")
			}
		}
		if err := r.configure(ctx); err != nil {
			c.log.Warn("publish the configuration failed", zap.String("fleet", r.fleet), zap.NamedError("err", err))
		}
	}
	c.updateSoon()
	return unique(changes), nil
}

// unique returns changes without duplicates, since several daemons return the same change.
func unique(changes []config.Change) []config.Change {
	var once []config.Change
	for _, change := range changes {
		if !slices.Contains(once, change) {
			once = append(once, change)
		}
	}
	return once
}
