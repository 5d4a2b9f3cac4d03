package daemon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// The calls into a fleet, as the metrics name them.
const (
	callSnapshot    = "snapshot"
	callSamples     = "samples"
	callSetReplicas = "set_replicas"
	callDiscover    = "discover"
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
func readLimit(timeout time.Duration) *limitError {
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

// A pass waits for its reads for two thirds of its period, so that it has time to
// decide and to write before its next tick. A read that several wait for has as
// long as the most patient of them.
const (
	readShare      = 2.0 / 3
	maxReadTimeout = 30 * time.Second
)

// partly returns how much longer than its limit a read may take to hand over what it has
// by then, which passes wait for.
func partly(limit time.Duration) time.Duration { return min(limit/20, time.Second) }

func readTimeout(period time.Duration) time.Duration {
	return min(time.Duration(float64(period)*readShare), maxReadTimeout)
}

// Writes get as long as the period, within these bounds: they are accepted, not
// waited for.
const (
	minWriteTimeout = 5 * time.Second
	maxWriteTimeout = 30 * time.Second
)

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
