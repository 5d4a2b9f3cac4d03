package adapters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
)

// Set contains the adapters of one configuration by name.
type Set struct {
	Fleets  map[string]*Fleet
	Sources map[string]*Source
}

// Close closes all adapters concurrently and joins their errors.
func (s Set) Close() error {
	all := slices.Concat(owned(s.Sources), owned(s.Fleets))
	errs := make([]error, len(all))
	var closing guard.Group
	for i, a := range all {
		closing.Go(func() error {
			if err := Close(a.built); err != nil {
				errs[i] = fmt.Errorf("close %s: %w", a.subject(), err)
			}
			return nil
		})
	}
	_ = closing.Wait() // each adapter has its own error
	return errors.Join(errs...)
}

func owned[A interface{ own() *Adapter }](set map[string]A) []*Adapter {
	var all []*Adapter
	for _, name := range slices.Sorted(maps.Keys(set)) {
		all = append(all, set[name].own())
	}
	return all
}

// Change is the transition from one Set to another.
type Change struct {
	Set
	// added lists the new adapters, and retired lists the old adapters that have no replacement.
	added   []replacement
	retired []*Adapter
}

// replacement is a new adapter, next, and the adapter with the same name and kind that it replaces.
// older is nil if next replaces no adapter.
type replacement struct{ next, older *Adapter }

// Discard closes the new adapters of a change that is not applied.
func (c *Change) Discard() error {
	var err error
	for _, a := range c.added {
		err = errors.Join(err, Close(a.next.built))
	}
	return err
}

// Start starts the new adapters of the first Set sequentially. Swap retries failed starts.
func (c *Change) Start(ctx context.Context) {
	c.added = slices.DeleteFunc(c.added, func(r replacement) bool {
		if start(ctx, r.next.built) != nil {
			return false
		}
		close(r.next.begun)
		return true
	})
}

// Env contains the dependencies of adapters.
type Env struct {
	// Log is also used for drains.
	Log   *zap.Logger
	Clock *clock.Clock
	// Store and Meter return the values for a fleet's targets.Env.
	Store func(fleet string) targets.Store
	Meter func(fleet string) targets.Meter
	// Fleet and Source contain the values that all fleets and all sources share.
	Fleet  targets.Env
	Source sources.Env
}

// Build builds the adapters of a configuration. It reuses the adapters in before that have equal
// tables. It does not affect active adapters, and it closes the new adapters after an error.
func (k *Manager) Build(c *config.Config, before Set) (_ *Change, err error) {
	change := &Change{}
	defer func() {
		if err != nil {
			err = errors.Join(err, change.Discard())
		}
	}()
	change.Fleets, err = build(change, "fleet", c.Fleets, before.Fleets,
		func(f config.Fleet) (string, any) { return f.Kind, f.Config },
		func(f config.Fleet) (*Fleet, error) { return k.buildFleet(f, c.Daemon) })
	if err != nil {
		return nil, err
	}
	change.Sources, err = build(change, "source", c.Sources, before.Sources,
		func(s config.Source) (string, any) { return s.Kind, s.Config },
		func(s config.Source) (*Source, error) { return k.buildSource(s, c.Daemon.StateDir) })
	if err != nil {
		return nil, err
	}
	return change, nil
}

// build builds the adapters for the given tables, and adds their differences from the earlier
// adapters to change. tableOf returns the kind of a table and the value to compare.
func build[T any, A interface{ own() *Adapter }](
	change *Change, what string, tables map[string]T, before map[string]A, tableOf func(T) (kind string, table any), construct func(T) (A, error),
) (map[string]A, error) {
	next := make(map[string]A, len(tables))
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		kind, table := tableOf(tables[name])
		older, had := before[name]
		if had && older.own().same(kind, table) {
			next[name] = older
			continue
		}
		made, err := construct(tables[name])
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", what, name, err)
		}
		next[name] = made
		r := replacement{next: made.own()}
		if had && older.own().Kind == kind {
			r.older = older.own()
		}
		change.added = append(change.added, r)
	}
	for name, older := range before {
		if made, ok := next[name]; !ok || made.own().Kind != older.own().Kind {
			change.retired = append(change.retired, older.own())
		}
	}
	return next, nil
}

func (k *Manager) buildFleet(c config.Fleet, daemon config.Daemon) (*Fleet, error) {
	env := k.env.Fleet
	env.OutputDir = filepath.Join(outputDir(daemon.StateDir), c.Name)
	env.Store, env.Meter = k.env.Store(c.Name), k.env.Meter(c.Name)
	fleet, err := c.Config.Build(c.Name, env)
	if err != nil {
		return nil, err
	}
	var scaleIn *drain.Fleet
	if inner, ok := fleet.(drain.Inner); ok { // without options, the platform chooses the instances
		scaleIn = drain.Wrap(inner, env.Store, k.env.Clock, k.env.Log.With(zap.String("fleet", c.Name)))
		scaleIn.Lease(env.Lease)
	}
	return newFleet(c, fleet, scaleIn, daemon.ConcurrentSyncs), nil
}

func (k *Manager) buildSource(c config.Source, stateDir string) (*Source, error) {
	env := k.env.Source
	env.StateDir = stateDir
	source, err := c.Config.Build(c.Name, env)
	if err != nil {
		return nil, err
	}
	return newSource(c, source), nil
}
