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
	if isImporting(view) {
		return nil, errImporting
	}
	delete(view.Fleets, importMark)
	delete(view.Fleets, pauseMark) // the fleets' own state contains the pause
	var all []map[string][]byte
	for _, fleet := range slices.Sorted(maps.Keys(view.Fleets)) {
		values, err := loadFleet(ctx, from, fleet)
		if err != nil {
			return nil, fmt.Errorf("read the state of fleet %q: %w", fleet, err)
		}
		all = append(all, values)
	}
	return all, nil
}

func loadFleet(ctx context.Context, from Coordinator, fleet string) (map[string][]byte, error) {
	values := map[string][]byte{}
	return values, from.Load(ctx, fleet, func(key string, value []byte) error {
		values[key] = value
		return nil
	})
}

const (
	// importer is the name of the member that imports a state.
	importer  = "hpad-state-import"
	importTTL = 15 * time.Second
	// importMark is stored like the configuration of a fleet, under a name that no fleet can have.
	// While the mark exists, no member acquires a fleet.
	importMark = ".import"
	importing  = "an import that is not complete"
)

// errImporting is returned while the state in the store is incomplete.
var errImporting = errors.New(`the state in the store is from an incomplete import: repeat "hpad state import", or remove the cluster from the store`)

func isImporting(view View) bool { return view.Fleets[importMark].Configuration != "" }

// Import writes the state of a single hpad into a coordinator that has no state for the shared
// fleets of a configuration. From BeginImport until End, no member acquires a fleet, even if this
// process is killed.
type Import struct {
	into   Coordinator
	shared *configuration
	view   View
	// repeated is set if an earlier import is not complete. begun is set when Write changes the
	// store.
	repeated, begun bool
}

// BeginImport marks the store as incomplete. It returns an error if the cluster has members, or
// state of the shared fleets that is not from an incomplete import.
func BeginImport(ctx context.Context, into Coordinator, whole *config.Config) (*Import, error) {
	before, err := into.View(ctx)
	if err != nil {
		return nil, err
	}
	i := &Import{into: into, shared: separate(whole), repeated: isImporting(before)}
	if err := into.Configure(ctx, importMark, importing, ""); err != nil {
		return nil, err
	}
	// This view contains each member that joined before importMark was set. Later members read
	// importMark.
	if i.view, err = into.View(ctx); err == nil {
		err = i.checkEmpty(ctx)
	}
	if err != nil {
		return nil, i.End(ctx, err)
	}
	return i, nil
}

// checkEmpty returns an error if the coordinator has members or state for the shared fleets.
func (i *Import) checkEmpty(ctx context.Context) error {
	if len(i.view.Members) > 0 {
		return fmt.Errorf("members of the cluster are running (%s): stop all members first; if they were killed, wait until their leases end",
			strings.Join(slices.Sorted(maps.Keys(i.view.Members)), ", "))
	}
	if i.repeated {
		return nil // Write removes the incomplete state
	}
	found := errors.New("found")
	for fleet := range i.view.Fleets {
		if i.shared.fleets[fleet] == nil {
			continue
		}
		err := i.into.Load(ctx, fleet, func(string, []byte) error { return found })
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

// Write writes the state of the shared fleets. Before that, it calls keep with the values that
// belong to this host.
func (i *Import) Write(ctx context.Context, values map[string][]byte, keep func(own map[string][]byte) error) error {
	fleets, err := state.FleetsOf(values)
	if err != nil {
		return err
	}
	for name, a := range i.shared.whole.Autoscalers { // an autoscaler may have a pause but no record
		if fleets[name] == "" {
			fleets[name] = a.Target.Fleet
		}
	}
	if err := keep(state.Select(values, fleets, func(fleet string) bool { return i.shared.fleets[fleet] == nil })); err != nil {
		return err
	}
	session, err := i.into.Join(ctx, Member{Name: importer}, importTTL)
	if err != nil {
		return fmt.Errorf("join as %q: %w", importer, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWait)
		defer cancel()
		_ = session.Leave(ctx) // if this fails, the session ends with its lease
	}()
	i.begun = true
	if err := i.into.Configure(ctx, pauseMark, "", ""); err != nil { // otherwise it applies to the imported state
		return fmt.Errorf("remove the pause of all autoscalers: %w", err)
	}
	for _, fleet := range i.shared.names() {
		term, err := session.Acquire(ctx, fleet, i.view.Fleets[fleet].Configuration)
		if err == nil {
			err = replace(ctx, term, state.Select(values, fleets, func(of string) bool { return of == fleet }))
		}
		if err == nil {
			err = term.Configure(ctx, "") // any member may own the fleet after the import
		}
		if err != nil {
			return fmt.Errorf("write the state of fleet %q: %w", fleet, err)
		}
	}
	return nil
}

// End removes the mark. If the import failed after it changed the store, End keeps the mark and
// adds advice to the error.
func (i *Import) End(ctx context.Context, failed error) error {
	if failed != nil && (i.begun || i.repeated) {
		return fmt.Errorf("%w; until an import is complete, or the cluster is removed from the store, no member owns a fleet", failed)
	}
	if err := i.into.Configure(ctx, importMark, "", ""); err != nil {
		return errors.Join(failed, fmt.Errorf("remove the mark of the import; repeat it with an empty state_dir: %w", err))
	}
	return failed
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
