package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// Own represents the host's own fleets where a parameter or result is the name of a shared fleet.
const Own = ""

// configuration is the member's configuration, split by fleet.
type configuration struct {
	whole *config.Config
	// own contains the host's own fleets, and everything that does not belong to a fleet.
	own *config.Config
	// fleets maps the name of each shared fleet to its configuration.
	fleets map[string]*config.Config
	// identities maps the name of each shared fleet to the identity of its configuration. Two
	// members with equal identities make the same decisions. It is nil until the key is known.
	identities map[string]string
}

// separate splits a configuration by fleet. Fleets that are local to the host, and sources that
// collect samples on the host, are not shared.
func separate(whole *config.Config) *configuration {
	c := &configuration{whole: whole, own: emptied(whole), fleets: map[string]*config.Config{}}
	c.own.HA = whole.HA
	maps.Copy(c.own.Sources, whole.Sources)
	for name, fleet := range whole.Fleets {
		if targets.Local(fleet.Config) {
			c.own.Fleets[name] = fleet
			continue
		}
		shared := emptied(whole)
		shared.Fleets[name] = fleet
		for source, s := range whole.Sources {
			if _, local := s.Config.(sources.Evaluator); !local {
				shared.Sources[source] = s
			}
		}
		c.fleets[name] = shared
	}
	for name, a := range whole.Autoscalers {
		of := c.own
		if shared := c.fleets[a.Target.Fleet]; shared != nil {
			of = shared
		}
		of.Autoscalers[name] = a
	}
	return c
}

// identified returns the configuration with identities.
func (c *configuration) identified(key []byte) *configuration {
	with := *c
	with.identities = make(map[string]string, len(c.fleets))
	for name, shared := range c.fleets {
		with.identities[name] = shared.Identity(name, key)
	}
	return &with
}

// identify reads the cluster's key once, and computes the identities of the active configuration.
func (c *Cluster) identify(ctx context.Context) error {
	active := c.active.Load()
	if active.identities != nil {
		return nil
	}
	call, cancel := c.call(ctx)
	defer cancel()
	key, err := c.options.Coordinator.Key(call)
	if err != nil {
		return err
	}
	c.key.Store(&key)
	c.active.CompareAndSwap(active, active.identified(key)) // after a concurrent reload, the next update tries again
	return nil
}

func (c *configuration) names() []string { return slices.Sorted(maps.Keys(c.fleets)) }

// emptied returns a copy of a configuration without fleets, sources and autoscalers.
func emptied(whole *config.Config) *config.Config {
	c := *whole
	c.HA, c.Fleets, c.Sources, c.Autoscalers = nil, map[string]config.Fleet{}, map[string]config.Source{}, map[string]*config.Autoscaler{}
	return &c
}

// loaded returns the configuration that a daemon must load now, or nil before the first one is
// loaded.
func (c *Cluster) loaded() *configuration {
	if loading := c.loading.Load(); loading != nil {
		return loading
	}
	return c.active.Load()
}

// Reload reads the configuration again and activates it in all daemons or in none. It returns the
// changes.
func (c *Cluster) Reload(ctx context.Context) ([]config.Change, error) { return c.reload(ctx, false) }

// reload implements Reload. If trial is true, it only returns the changes.
func (c *Cluster) reload(ctx context.Context, trial bool) ([]config.Change, error) {
	c.reloads.Lock()
	defer c.reloads.Unlock()
	if c.active.Load() == nil {
		return nil, errors.New("hpad is starting")
	}
	whole, err := c.options.Load(c.lifetime)
	if err != nil {
		return nil, err
	}
	daemon.WarnOf(ctx, whole)
	next := separate(whole)
	if key := c.key.Load(); key != nil {
		next = next.identified(*key)
	}
	var runs []*run
	for fleet := range next.fleets { // all other runs are about to end
		if r := c.runOf(fleet); r != nil && r.daemon.Load() != nil {
			runs = append(runs, r)
		}
	}
	// all calls a method of each daemon until a call fails.
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
	ofDaemons, err := all((*daemon.Daemon).ReloadChanges) // activate nothing that one of them rejects
	if err != nil {
		return nil, err
	}
	changes := c.changesTo(whole, ofDaemons)
	if trial {
		return changes, nil
	}
	if _, err := all((*daemon.Daemon).Reload); err != nil {
		return nil, err
	}
	c.active.Store(next)
	c.log.Info("cluster configuration reloaded", zap.Int("shared_fleets", len(next.fleets)), zap.Int("changes", len(changes)))
	c.publish(ctx, runs)
	c.updateSoon()
	c.warnDiffering(ctx, next)
	return changes, nil
}

// warnDiffering adds a warning to the response of a reload for each fleet that this member or
// another member cannot take over, because its configuration differs from that of the owner.
func (c *Cluster) warnDiffering(ctx context.Context, reloaded *configuration) {
	view, err := c.viewNow(ctx)
	if err != nil {
		return // the members are unknown
	}
	me := c.options.Member.Name
	for _, fleet := range reloaded.names() {
		owned, role := view.Fleets[fleet], "owner"
		if owned.Owner == "" {
			role = "last owner"
		}
		for _, member := range slices.Sorted(maps.Keys(view.Members)) {
			identity, _ := view.Members[member].identity(fleet)
			if member == me { // the view is from before the reload
				identity = reloaded.identities[fleet]
			}
			if parts := config.Difference(identity, owned.Configuration); parts != "" && (member == me || owned.Owner == me) {
				api.Warn(ctx, fmt.Sprintf("member %s cannot take over fleet %q: its configuration differs from the configuration of the %s, %s, in %s",
					member, fleet, role, owned.Last, parts))
			}
		}
	}
}

// publish publishes the identities of a new active configuration. It also reloads the runs that
// have started since reloaded was determined.
func (c *Cluster) publish(ctx context.Context, reloaded []*run) {
	c.mu.RLock()
	current := slices.Collect(maps.Values(c.runs))
	c.mu.RUnlock()
	for _, r := range current {
		if !slices.Contains(reloaded, r) && r.daemon.Load() != nil { // started in the meantime
			if _, err := r.reload(ctx, (*daemon.Daemon).Reload); err != nil {
				r.log.Warn("reload failed, restarting the fleet", zap.NamedError("err", err))
				r.end("the configuration has changed")
			}
		}
		if err := r.configure(ctx); err != nil {
			c.log.Warn("publishing the configuration failed", zap.String("fleet", r.fleet), zap.NamedError("err", err))
		}
	}
}

// changesTo returns all changes to a configuration, including fleets that other members own, with
// the notes of this member's daemons.
func (c *Cluster) changesTo(next *config.Config, ofDaemons []config.Change) []config.Change {
	changes := c.active.Load().whole.Changes(c.started, next)
	for i, change := range changes {
		for _, other := range ofDaemons {
			if other.Key == change.Key && other.Kind == change.Kind && other.Note != "" {
				changes[i].Note = other.Note
			}
		}
	}
	return changes
}
