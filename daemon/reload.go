package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/discovery"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/targets"
)

// beginReload waits until the daemon has started, and locks the mutex reloads.
func (d *Daemon) beginReload(ctx context.Context) error {
	select {
	case <-d.running:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.reloads.Lock()
	if d.env.RunContext.Err() != nil {
		d.reloads.Unlock()
		return round.ErrStopping
	}
	return nil
}

// Reload reads and activates the configuration. It returns the changes, including those that need a
// restart. After an error, the previous configuration remains active.
func (d *Daemon) Reload(ctx context.Context) ([]config.Change, error) {
	if err := d.beginReload(ctx); err != nil {
		return nil, err
	}
	defer d.reloads.Unlock()
	d.service.Reloading()
	defer func() { d.service.Ready() }()
	changes, err := d.reload(ctx, cmp.Or(api.Author(ctx), "an unknown user"))
	d.env.Metrics.Reload(err)
	d.reloadError.Set(err)
	author := authorField(api.Author(ctx))
	if err != nil {
		d.env.Log.Error("reload failed, previous configuration stays active", author, zap.NamedError("err", err))
		return nil, err
	}
	d.env.Log.Info("reloaded", author, zap.Int("autoscalers", len(d.scheduler.Current().Names)), zap.Int("changes", len(changes)))
	return changes, nil
}

func (d *Daemon) reload(ctx context.Context, author string) ([]config.Change, error) {
	c, err := d.options.Load(d.env.RunContext)
	if err != nil {
		return nil, err
	}
	c.Adopt(d.labels.File())
	changes := d.changesTo(ctx, c)
	if err := d.activate(c, author); err != nil {
		return nil, err
	}
	select {
	case d.reloaded <- struct{}{}:
	default:
	}
	for _, change := range changes {
		if change.NextStart {
			d.env.Log.Warn("changed key needs a restart", zap.String("key", change.Key))
		}
		if change.Note != "" {
			d.env.Log.Warn("paused object removed", zap.String("key", change.Key), zap.String("pause", change.Note))
		}
	}
	return changes, nil
}

// WarnOf adds the warnings of a configuration to the response.
func WarnOf(ctx context.Context, c *config.Config) {
	for _, warning := range c.Warnings() {
		api.Warn(ctx, warning.Error())
	}
}

// changesTo returns the differences between a configuration and the active one. It adds the warnings
// of the configuration to the response.
func (d *Daemon) changesTo(ctx context.Context, c *config.Config) []config.Change {
	WarnOf(ctx, c)
	changes := d.labels.File().Changes(&d.startConfig, c)
	for scope, pause := range d.env.Pauses.Active() {
		removed := func(change config.Change) bool {
			return change.Kind == config.Removed && change.Key == config.TableKey(scope.Fleet, scope.Autoscaler)
		}
		if i := slices.IndexFunc(changes, removed); i >= 0 && !scope.Breaker && !pause.Ended(d.env.Clock.Now()) {
			changes[i].Note = "it is " + records.PauseText(&pause, d.env.Clock.Scale()) + "; the pause does not apply to another name"
		}
	}
	return changes
}

// ReloadChanges returns the changes that a reload would make, or the error that it would return.
func (d *Daemon) ReloadChanges(ctx context.Context) ([]config.Change, error) {
	if err := d.beginReload(ctx); err != nil {
		return nil, err
	}
	defer d.reloads.Unlock()
	c, err := d.options.Load(d.env.RunContext)
	if err != nil {
		return nil, err
	}
	ch, err := d.build(d.labels.Merge(c).Config)
	if err != nil {
		return nil, err
	}
	for _, a := range ch.added {
		d.env.Metrics.Forget(a.Name)
	}
	return d.changesTo(ctx, c), ch.adapters.Discard()
}

// activate activates a configuration together with the discovered autoscalers, and records the
// changes. The next generation is built before the swap, which cannot fail. After an error, the
// previous configuration remains active. The caller holds the mutex reloads.
func (d *Daemon) activate(file *config.Config, author string) error {
	merged := d.labels.Merge(file)
	before := d.scheduler.Current()
	// The change must precede the first pass after it, because two history entries cannot have the
	// same time.
	at := d.env.Clock.Now().Add(-time.Nanosecond)
	ch, err := d.build(merged.Config)
	if err != nil {
		return err
	}
	changes := before.Config.Changes(before.Config, merged.Config)
	if !d.scheduler.Swap(d.swap(ch)) {
		return errors.Join(round.ErrStopping, ch.adapters.Discard())
	}
	d.labels.Activate(merged)
	if recorded := d.recordChanges(changes, author, at); recorded != nil {
		_ = recorded.Wait(d.env.RunContext, "")
	}
	return nil
}

// maxChanges is the maximum number of changes in one history entry.
const maxChanges = 10

// recordChanges adds changes to the history of each autoscaler that they affect. It returns the
// last commit, or nil if no autoscaler is affected.
func (d *Daemon) recordChanges(changes []config.Change, author string, at time.Time) (last *records.Commit) {
	for name, affecting := range config.Affected(changes, d.scheduler.Current().Config.Autoscalers) {
		last = d.recordReload(name, settings.Reload{Author: author, Changes: affecting}, at)
	}
	return last
}

// recordReload adds a configuration change to the history of an autoscaler.
func (d *Daemon) recordReload(name string, reload settings.Reload, at time.Time) *records.Commit {
	shown := min(len(reload.Changes), maxChanges)
	reload.Changes, reload.More = append([]config.Change{}, reload.Changes[:shown]...), len(reload.Changes)-shown
	return d.env.Recorder.Record(name, nil, state.Entry{Autoscaler: name, Time: at, Reload: &reload})
}

// recordStart records, in the history of each autoscaler, the configuration changes since its
// stored record, a preceding "hpad cluster adopt", and a takeover from another member.
func (d *Daemon) recordStart(started []*round.Autoscaler) {
	at := d.env.Clock.Now().Add(-time.Nanosecond) // before the first pass
	reload := settings.Reload{Author: cmp.Or(d.options.Adopter, api.AuthorRestart), Adopted: d.options.Adopter != "", Takeover: d.options.Takeover}
	for _, a := range started {
		record, def := &a.Last().Record, a.Definition()
		reload.Changes = def.ChangesSince(record.Digest, def.Digest)
		if len(reload.Changes) > 0 || reload.Adopted || reload.Takeover != nil {
			d.recordReload(a.Name, reload, at)
		}
	}
}

// discover discovers targets by their labels, at startup and at each tick of the daemon's sync
// period, until ctx ends.
func (d *Daemon) discover(ctx context.Context) {
	for {
		g := d.scheduler.Current()
		if found := discovery.Discover(ctx, d.env.Log, d.discoverers(g)); len(found) > 0 {
			d.addDiscovered(g, found)
		}
		for started, due := d.env.Clock.Now(), false; !due; {
			next := ticks.Next(started, d.scheduler.Current().Config.Daemon.SyncPeriod)
			select {
			case <-time.After(next.Sub(d.env.Clock.Now())):
				due = true
			case <-d.reloaded: // the period might have changed
			case <-ctx.Done():
				return
			}
		}
	}
}

// addDiscovered activates changes to the discovered targets.
func (d *Daemon) addDiscovered(queried *round.Generation, found map[string]discovery.Found) {
	d.reloads.Lock()
	defer d.reloads.Unlock()
	d.prune()
	g := d.scheduler.Current()
	changed := false
	for name, found := range found {
		if g.Fleets[name] == queried.Fleets[name] && d.labels.Keep(name, found) {
			changed = true
		}
	}
	if !changed || d.env.RunContext.Err() != nil {
		return
	}
	if err := d.activate(d.labels.File(), api.AuthorLabels); err != nil {
		d.env.Log.Error("cannot activate discovered autoscalers", zap.NamedError("err", err))
	}
}

// The record of a removed autoscaler is retained for orphanKept, in case it was removed by mistake.
// This is longer than the usual windows.
const orphanKept = 24 * time.Hour

// prune deletes the records of autoscalers that were removed more than orphanKept ago. It resets
// the replay of the other removed autoscalers, so that the store does not replay passes for them.
func (d *Daemon) prune() {
	for name, record := range d.restored.Autoscalers {
		switch {
		case d.env.Clock.Now().Sub(record.Through) > orphanKept:
			d.env.Recorder.Remove(name)
			delete(d.restored.Autoscalers, name)
		case record.Replay != nil:
			record.Replay = nil
			d.restored.Autoscalers[name] = record
			d.env.Recorder.Record(name, &record)
		}
	}
}

// discoverers returns the fleets that discover targets.
func (d *Daemon) discoverers(g *round.Generation) []discovery.Fleet {
	var fleets []discovery.Fleet
	for name, h := range g.Fleets {
		if g.Config.Fleets[name].Discover && h.Discoverer != nil {
			fleets = append(fleets, discovery.Fleet{
				Name: name, Problem: &h.Undiscovered,
				Discover: func(ctx context.Context) ([]targets.Discovered, error) {
					return d.env.Discover(ctx, h, g.Config.Daemon.SyncPeriod)
				},
			})
		}
	}
	return fleets
}
