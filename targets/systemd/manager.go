package systemd

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
)

// manager is the service manager. Its errors have a class of package targets.
type manager interface {
	// list returns the loaded units that match one of the patterns.
	list(ctx context.Context, patterns []string) (listing, error)
	// files returns the unit files that match one of the patterns.
	files(ctx context.Context, patterns []string) ([]systemd.UnitFile, error)
	// properties returns all properties of a unit. property returns a single unit or service
	// property.
	properties(ctx context.Context, unit string) (map[string]any, error)
	property(ctx context.Context, unit, name string) (any, error)
	// start and stop do not wait for the unit. They succeed if it is already in the requested
	// state.
	start(ctx context.Context, unit string) error
	stop(ctx context.Context, unit string) error
	// checkPermission returns a targets.ErrForbidden if hpad's user is not permitted to start and
	// stop a unit. It changes nothing.
	checkPermission(ctx context.Context, unit string) error
	// reset clears a unit's failed state.
	reset(ctx context.Context, unit string) error
	// changed returns the time of the last change of a file.
	changed(path string) (time.Time, error)
	close()
}

type listing struct {
	units []systemd.UnitStatus
	// run identifies the manager's run. A new run starts without units.
	run string
}
