package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// limitError is the cause of a call that ran out of the time that the daemon gives
// it. It is a context.DeadlineExceeded.
type limitError struct {
	limit time.Duration
	// why says where the limit comes from, and names the key that changes it.
	why string
}

// Error says how long the call had, and why no longer.
func (e *limitError) Error() string { return fmt.Sprintf("no answer within %s, %s", e.limit, e.why) }

// Is makes every limitError a context.DeadlineExceeded.
func (e *limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// readLimit is the cause of a read that took longer than readTimeout allows it.
func readLimit(timeout time.Duration) error {
	if timeout >= maxReadTimeout {
		return &limitError{timeout, "the most that a read gets, whatever sync_period is"}
	}
	period := time.Duration(math.Round(float64(timeout) / readShare)).Round(time.Millisecond)
	return &limitError{timeout.Round(time.Millisecond), fmt.Sprintf("two thirds of sync_period (%s)", period)}
}

// writeTimeout is how long a write of an autoscaler with that period gets, and the
// cause of one that takes longer.
func writeTimeout(period time.Duration) (time.Duration, *limitError) {
	switch {
	case period < minWriteTimeout:
		return minWriteTimeout, &limitError{minWriteTimeout, fmt.Sprintf("the least that a write gets (sync_period is %s)", period)}
	case period > maxWriteTimeout:
		return maxWriteTimeout, &limitError{maxWriteTimeout, fmt.Sprintf("the most that a write gets (sync_period is %s)", period)}
	}
	return period, &limitError{period, "the sync_period"}
}

// withLimit adds to the error of a call which limit ended it, where that is not said.
func withLimit(ctx context.Context, err error) error {
	limit, ok := errors.AsType[*limitError](context.Cause(ctx))
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, said := errors.AsType[*limitError](err); said {
		return err
	}
	return fmt.Errorf("%w (%w)", err, limit)
}
