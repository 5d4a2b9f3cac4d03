package targets

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTimeout is the error of a call that took longer than its fleet's timeout, which
// is no deadline of the caller.
var ErrTimeout = errors.New("no answer within the fleet's timeout")

// Bounded returns a context for one call within a fleet's timeout.
func Bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", ErrTimeout, timeout))
}

// Overdue returns an [ErrTimeout] for the error of a call whose [Bounded] context ended
// by the fleet's timeout, and any other error, and nil, as it is.
func Overdue(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrTimeout) {
		return cause
	}
	return err
}
