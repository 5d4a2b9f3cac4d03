package targets

import (
	"io"
	"time"
)

// Env is what a fleet is lent by the daemon. A field may have its zero value, but for
// the Store of kinds that cannot do without.
type Env struct {
	// Store is the fleet's own small store; nil keeps nothing across restarts.
	Store Store
	// Meter counts the fleet's calls to a platform that limits them.
	Meter Meter
	// Output returns where the output of an instance goes that the fleet itself runs.
	Output func(service, instance string) io.Writer
	// Now is the daemon's clock, which nobody sets, also across restarts.
	Now func() time.Time
	// DryRun is set where the fleet is to change nothing of its own accord.
	DryRun bool
}
