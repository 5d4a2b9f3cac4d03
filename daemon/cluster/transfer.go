package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
)

// ReadAll returns the state of all shards.
func ReadAll(ctx context.Context, from Coordinator) ([]map[string][]byte, error) {
	view, err := from.View(ctx)
	if err != nil {
		return nil, err
	}
	l := layoutOf(view)
	var all []map[string][]byte
	for _, shard := range slices.Sorted(maps.Keys(view.Shards)) {
		fleet, _, _ := strings.Cut(shard, partMark)
		if !slices.Contains(shardNames(fleet, l.of(fleet)), shard) {
			continue // of a layout that is not in force
		}
		values := map[string][]byte{}
		if err := from.Load(ctx, shard, func(key string, value []byte) error {
			values[key] = value
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read the state of %s: %w", shardText(shard), err)
		}
		all = append(all, values)
	}
	if view, err = from.View(ctx); err == nil && !maps.Equal(layoutOf(view), l) {
		err = errors.New("a fleet was divided anew meanwhile; ask again")
	}
	return all, err
}

const (
	// importer is the member that fills a store, and importing the configuration of shards
	// while it does, which keeps others from owning them.
	importer  = "hpad-state-import"
	importing = "an import that is not complete"
	// fillTTL is for how long a store believes in an import that was killed.
	fillTTL = 15 * time.Second
)

// Fill puts the state of a hpad that ran alone into a coordinator, which has no state yet of
// the fleets that a configuration shares, divided by a size as [Options] have it. Before,
// it calls keep with what is left for the machine itself. On an error nothing of it is kept,
// as far as the coordinator can be reached.
func Fill(ctx context.Context, into Coordinator, whole *config.Config, size int, values map[string][]byte, keep func(own map[string][]byte) error) (err error) {
	l := layout{}
	for fleet := range whole.Fleets {
		if n := whole.Parts(fleet, size); n > 1 {
			l[fleet] = n
		}
	}
	p := divide(whole, size, l)
	view, err := into.View(ctx)
	if err != nil {
		return err
	}
	if err := p.isEmpty(ctx, into, view); err != nil {
		return err
	}
	fleets, err := state.FleetsOf(values)
	if err != nil {
		return err
	}
	for name, a := range whole.Autoscalers { // also those that have a pause alone
		if fleets[name] == "" {
			fleets[name] = a.Target.Fleet
		}
	}
	shared := func(fleet string) bool { return p.fleets[fleet] != nil }
	own := state.Select(values, func(name string) bool { return !shared(fleets[name]) }, func(fleet string) bool { return !shared(fleet) })
	if err := keep(own); err != nil {
		return err
	}
	session, err := into.Join(ctx, Member{Name: importer}, fillTTL)
	if err != nil {
		return fmt.Errorf("join as %q: %w", importer, err)
	}
	defer leave(ctx, session)
	f := &filling{parts: &p, session: session, view: view, terms: map[string]Term{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.undo(context.WithoutCancel(ctx)))
		}
	}()
	for _, fleet := range slices.Sorted(maps.Keys(p.fleets)) {
		if err := f.mark(ctx, fleet); err != nil {
			return err
		}
	}
	for _, fleet := range slices.Sorted(maps.Keys(p.fleets)) {
		if err := f.fill(ctx, fleet, fleets, values); err != nil {
			return err
		}
	}
	return f.finish(ctx)
}

// leave ends a session. Where that fails it ends once its time is over.
func leave(ctx context.Context, session Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
	defer cancel()
	_ = session.Leave(ctx)
}

// isEmpty returns why nothing can be put into a coordinator.
func (p *parts) isEmpty(ctx context.Context, into Coordinator, view View) error {
	if len(view.Members) > 0 {
		return fmt.Errorf("members of the cluster are running (%s): stop all of them first, and wait until their leases are over where they were killed",
			strings.Join(slices.Sorted(maps.Keys(view.Members)), ", "))
	}
	found := errors.New("found")
	for shard := range view.Shards {
		fleet, _, _ := strings.Cut(shard, partMark)
		if p.fleets[fleet] == nil {
			continue
		}
		err := into.Load(ctx, shard, func(string, []byte) error { return found })
		switch {
		case errors.Is(err, found):
			return fmt.Errorf("%s has a state in the cluster's store already: keep that by \"hpad state export\", and remove all of the cluster from the store, or name another one in ha.cluster",
				shardText(shard))
		case err != nil:
			return err
		}
	}
	return nil
}

// filling is a state on its way into a coordinator.
type filling struct {
	*parts
	session Session
	view    View
	terms   map[string]Term
}

// acquire owns a shard, and keeps others from it.
func (f *filling) acquire(ctx context.Context, shard string) (Term, error) {
	term, err := f.session.Acquire(ctx, shard, f.view.Shards[shard].Configuration)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shardText(shard), err)
	}
	f.terms[shard] = term
	return term, nil
}

// mark keeps others from the shards of a fleet, also once this process was killed: those that
// are filled, and those of the layout in force, which is so until all are.
func (f *filling) mark(ctx context.Context, fleet string) error {
	if _, err := f.acquire(ctx, fleet+partMark); err != nil {
		return err
	}
	for _, shard := range append(shardNames(fleet, layoutOf(f.view).of(fleet)), shardNames(fleet, f.layout.of(fleet))...) {
		term, err := f.acquire(ctx, shard)
		if err != nil {
			return err
		}
		if err := term.Configure(ctx, importing); err != nil {
			return fmt.Errorf("%s: %w", shardText(shard), err)
		}
	}
	return nil
}

// fill fills the shards of a fleet.
func (f *filling) fill(ctx context.Context, fleet string, fleets map[string]string, values map[string][]byte) error {
	n := f.layout.of(fleet)
	for part, shard := range shardNames(fleet, n) {
		if err := replace(ctx, f.terms[shard], state.Select(values,
			func(name string) bool { return fleets[name] == fleet && partNumber(name, n) == part },
			func(name string) bool { return name == fleet })); err != nil {
			return fmt.Errorf("write the state of %s: %w", shardText(shard), err)
		}
	}
	return nil
}

// finish lets members have the shards, once all fleets are laid out as they were filled.
func (f *filling) finish(ctx context.Context) error {
	for fleet := range f.fleets {
		if err := f.terms[fleet+partMark].Configure(ctx, strconv.Itoa(f.layout.of(fleet))); err != nil {
			return err
		}
	}
	for shard, term := range f.terms {
		if strings.HasSuffix(shard, partMark) {
			continue
		}
		if err := term.Configure(ctx, ""); err != nil { // anybody's
			return err
		}
	}
	return nil
}

// undo removes what was written.
func (f *filling) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	var errs []error
	for shard, term := range f.terms {
		errs = append(errs, replace(ctx, term, nil), term.Configure(ctx, f.view.Shards[shard].Configuration))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("what was imported is left in part; remove all of the cluster from the store, and import again: %w", err)
	}
	return nil
}
