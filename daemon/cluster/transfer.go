package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/state"
)

// ReadAll returns the state of each fleet.
func ReadAll(ctx context.Context, from Coordinator) ([]map[string][]byte, error) {
	view, err := from.View(ctx)
	if err != nil {
		return nil, err
	}
	var all []map[string][]byte
	for _, fleet := range slices.Sorted(maps.Keys(view.Fleets)) {
		values := map[string][]byte{}
		if err := from.Load(ctx, fleet, func(key string, value []byte) error {
			values[key] = value
			return nil
		}); err != nil {
			return nil, fmt.Errorf("read the state of fleet %q: %w", fleet, err)
		}
		all = append(all, values)
	}
	return all, nil
}

const (
	// importer is the name of the member that fills a store. importing is the configuration that
	// prevents members from acquiring a fleet during the import.
	importer  = "hpad-state-import"
	importing = "an import that is not complete"
	importTTL = 15 * time.Second
)

// Fill writes the state of a single hpad into a coordinator that has no state for the shared
// fleets of a configuration. Before that, it calls keep with the values that belong to this host.
// If it fails, it removes everything it wrote, unless the coordinator cannot be reached.
func Fill(ctx context.Context, into Coordinator, whole *config.Config, values map[string][]byte, keep func(own map[string][]byte) error) (err error) {
	shared := separate(whole)
	view, err := into.View(ctx)
	if err != nil {
		return err
	}
	if err := shared.checkEmpty(ctx, into, view); err != nil {
		return err
	}
	fleets, err := state.FleetsOf(values)
	if err != nil {
		return err
	}
	for name, a := range whole.Autoscalers { // an autoscaler may have a pause but no record
		if fleets[name] == "" {
			fleets[name] = a.Target.Fleet
		}
	}
	if err := keep(state.Select(values, fleets, func(fleet string) bool { return shared.fleets[fleet] == nil })); err != nil {
		return err
	}
	session, err := into.Join(ctx, Member{Name: importer}, importTTL)
	if err != nil {
		return fmt.Errorf("join as %q: %w", importer, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
		defer cancel()
		_ = session.Leave(ctx) // if this fails, the session ends with its lease
	}()
	f := &filling{session: session, view: view, terms: map[string]Term{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.undo(context.WithoutCancel(ctx)))
		}
	}()
	for _, fleet := range shared.names() {
		if err := f.mark(ctx, fleet); err != nil {
			return err
		}
	}
	for _, fleet := range shared.names() {
		if err := replace(ctx, f.terms[fleet], state.Select(values, fleets, func(of string) bool { return of == fleet })); err != nil {
			return fmt.Errorf("write the state of fleet %q: %w", fleet, err)
		}
	}
	for _, term := range f.terms {
		if err := term.Configure(ctx, ""); err != nil { // any member may now own the fleet
			return err
		}
	}
	return nil
}

// checkEmpty returns an error if the coordinator has members or state for the shared fleets.
func (c *configuration) checkEmpty(ctx context.Context, into Coordinator, view View) error {
	if len(view.Members) > 0 {
		return fmt.Errorf("members of the cluster are running (%s): stop all members first; if they were killed, wait until their leases end",
			strings.Join(slices.Sorted(maps.Keys(view.Members)), ", "))
	}
	found := errors.New("found")
	for fleet := range view.Fleets {
		if c.fleets[fleet] == nil {
			continue
		}
		err := into.Load(ctx, fleet, func(string, []byte) error { return found })
		switch {
		case errors.Is(err, found):
			return fmt.Errorf("fleet %q has state in the cluster store: save it with \"hpad state export\" and remove the cluster from the store, or set another ha.cluster",
				fleet)
		case err != nil:
			return err
		}
	}
	return nil
}

type filling struct {
	session Session
	view    View
	terms   map[string]Term
}

// mark acquires a fleet and prevents members from acquiring it, even if this process is killed.
func (f *filling) mark(ctx context.Context, fleet string) error {
	term, err := f.session.Acquire(ctx, fleet, f.view.Fleets[fleet].Configuration)
	if err == nil {
		f.terms[fleet] = term
		err = term.Configure(ctx, importing)
	}
	if err != nil {
		return fmt.Errorf("fleet %q: %w", fleet, err)
	}
	return nil
}

func (f *filling) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	var errs []error
	for fleet, term := range f.terms {
		errs = append(errs, replace(ctx, term, nil), term.Configure(ctx, f.view.Fleets[fleet].Configuration))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the partial import: %w: remove the cluster from the store and import again", err)
	}
	return nil
}

func replace(ctx context.Context, records state.Records, values map[string][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, loadWait)
	defer cancel()
	changes := map[string][]byte{}
	err := records.Load(ctx, func(key string, _ []byte) error {
		changes[key] = nil
		return nil
	})
	if err != nil {
		return err
	}
	maps.Copy(changes, values)
	return records.Write(ctx, changes)
}
