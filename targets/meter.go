package targets

import "time"

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
