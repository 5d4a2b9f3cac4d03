package round

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// The names of fleet calls in the metrics.
const (
	callSnapshot    = "snapshot"
	callSamples     = "samples"
	callSetReplicas = "set_replicas"
	callDiscover    = "discover"
)

// limitError is the cause of the context of a call that exceeded its timeout. It matches
// context.DeadlineExceeded.
type limitError struct {
	limit time.Duration
	// why describes the origin of the limit and names the key that changes it.
	why string
}

func (e *limitError) Error() string { return fmt.Sprintf("no response within %s, %s", e.limit, e.why) }

func (e *limitError) Is(target error) bool { return target == context.DeadlineExceeded }

// readLimit returns the error of a read that exceeded its timeout.
func readLimit(timeout time.Duration) *limitError {
	if timeout >= maxReadTimeout {
		return &limitError{timeout, "the maximum timeout of a read"}
	}
	period := time.Duration(math.Round(float64(timeout) / readShare)).Round(time.Millisecond)
	return &limitError{timeout.Round(time.Millisecond), fmt.Sprintf("two thirds of sync_period (%s)", period)}
}

// writeTimeout returns the timeout of a write, and the error of a write that exceeds it.
func writeTimeout(period time.Duration) (time.Duration, *limitError) {
	switch {
	case period < minWriteTimeout:
		return minWriteTimeout, &limitError{minWriteTimeout, fmt.Sprintf("the minimum timeout of a write (sync_period is %s)", period)}
	case period > maxWriteTimeout:
		return maxWriteTimeout, &limitError{maxWriteTimeout, fmt.Sprintf("the maximum timeout of a write (sync_period is %s)", period)}
	}
	return period, &limitError{period, "the sync_period"}
}

// withLimit adds the exceeded limit to the error of a call, unless the error already contains it.
func withLimit(ctx context.Context, err error) error {
	limit, ok := errors.AsType[*limitError](context.Cause(ctx))
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, has := errors.AsType[*limitError](err); has {
		return err
	}
	return fmt.Errorf("%w (%w)", err, limit)
}

// A pass waits two thirds of its period for its reads, so that it can write before its next
// tick.
const (
	readShare      = 2.0 / 3
	maxReadTimeout = 30 * time.Second
)

// partialDelay returns the time that a read has after its limit to return partial results.
func partialDelay(limit time.Duration) time.Duration { return min(limit/20, time.Second) }

func readTimeout(period time.Duration) time.Duration {
	return min(time.Duration(float64(period)*readShare), maxReadTimeout)
}

// The timeout of a write is the sync period within these bounds. That is long enough, because
// platforms accept a write immediately and do not wait for instances.
const (
	minWriteTimeout = 5 * time.Second
	maxWriteTimeout = 30 * time.Second
)
