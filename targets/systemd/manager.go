package systemd

import (
	"context"

	systemd "github.com/coreos/go-systemd/v22/dbus"
)

// manager is the part of a service manager that the fleet uses. Its errors are of
// the classes in package targets.
type manager interface {
	// list returns the loaded units whose names match one of the patterns.
	list(ctx context.Context, patterns []string) (listing, error)
	// files returns the unit files whose names match one of the patterns.
	files(ctx context.Context, patterns []string) ([]systemd.UnitFile, error)
	// properties returns all properties of a unit, property one of those that are of all
	// units or of services.
	properties(ctx context.Context, unit string) (map[string]any, error)
	property(ctx context.Context, unit, name string) (any, error)
	// start and stop begin it and do not wait. A unit that is so already is no error.
	start(ctx context.Context, unit string) error
	stop(ctx context.Context, unit string) error
	// may returns a targets.ErrForbidden where hpad's user may not start and stop a
	// unit, and changes nothing.
	may(ctx context.Context, unit string) error
	// reset takes a failed unit's failure away.
	reset(ctx context.Context, unit string) error
	// enable and disable change what is started when the manager starts.
	enable(ctx context.Context, units []string) error
	disable(ctx context.Context, units []string) error
	close()
}

type listing struct {
	units []systemd.UnitStatus
	// run is the manager's run: another one began with no unit running.
	run string
}
