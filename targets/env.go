package targets

import (
	"context"
	"io"
	"time"
)

// Env contains the resources that the daemon provides to a fleet. All fields are optional, except
// that some kinds need a Store.
type Env struct {
	// Store is the fleet's store; if it is nil, nothing is stored.
	Store Store
	// Meter counts the fleet's calls to a platform that limits them.
	Meter Meter
	// OutputDir is the directory for the output of the fleet's processes. It may not exist. If it
	// is empty, the output is discarded.
	OutputDir string
	// Exiting reports whether hpad is ending, and the fleet's processes must continue to run until
	// the next start. It is nil if processes must end with hpad.
	Exiting func() bool
	// Output returns a writer for the output of an instance that the fleet runs. Each call of
	// Write passes one line.
	Output func(service, instance string) io.Writer
	// Now is the daemon's monotonic clock.
	Now func() time.Time
	// Lease returns the time until which this process may change a fleet that other processes may
	// own; nil if no other process shares the fleet.
	Lease Lease
	// DryRun forbids changes that were not requested by an autoscaler.
	DryRun bool
	// Withdraw publishes the endpoints of a target without its terminating instances. A fleet calls
	// it when its readings report the instances as Deleting, and before it stops them. It returns
	// when the endpoints are published, or after a time limit. It has no effect if the target has
	// no endpoints. It is nil in tests and checks.
	Withdraw func(ctx context.Context, ref Ref)
}

// Meter counts the calls of a fleet to a platform with rate limits. It is safe for concurrent
// use.
type Meter interface {
	// Call counts one call of an operation and its result. An ErrThrottled is also counted as
	// throttled.
	Call(operation string, took time.Duration, err error)
	// Wait counts a wait that hpad's own rate limit caused before a call of an operation.
	Wait(operation string, waited time.Duration)
}

// Store is a fleet's small key-value store. It contains first-seen and readiness times, counts
// that the platform does not store, and active operations. Keys are not empty. It is safe for
// concurrent use.
type Store interface {
	// Load returns the value of a key, or nil. The caller owns the result.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save durably sets the value of a key.
	Save(ctx context.Context, key string, value []byte) error
	// Delete removes a key; a missing key is not an error.
	Delete(ctx context.Context, key string) error
	// List returns all entries with a key prefix.
	List(ctx context.Context, prefix string) (map[string][]byte, error)
}
