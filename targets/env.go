package targets

import (
	"context"
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

// Meter counts what a fleet does towards a platform that limits its callers. It
// is safe for concurrent use.
type Meter interface {
	// Call counts one call of an operation, as the platform names it, and its
	// outcome; err is nil when it succeeded. One that is an ErrThrottled counts as
	// throttled as well.
	Call(operation string, took time.Duration, err error)
	// Wait counts a wait for hpad's own limit before a call of an operation.
	Wait(operation string, waited time.Duration)
}

// Store is a small key-value store of a fleet's own, kept across restarts: for
// first-seen and readiness times, counts that no platform keeps, operations
// under way. Keys are not empty. It is safe for concurrent use.
type Store interface {
	// Load returns the value of a key, and nil when there is none. The caller
	// owns the result.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save sets the value of a key; once it returns nil a crash does not lose it.
	Save(ctx context.Context, key string, value []byte) error
	// Delete removes a key; a missing one is no error.
	Delete(ctx context.Context, key string) error
	// List returns all entries whose keys start with prefix.
	List(ctx context.Context, prefix string) (map[string][]byte, error)
}
