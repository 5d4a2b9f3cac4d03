package targets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
)

// The classes of errors that a fleet returns, for errors.Is. A fleet wraps them with
// what it tried and what the platform said.
var (
	// ErrTargetNotFound: there is no such target. It is read again every round
	// and never created.
	ErrTargetNotFound = errors.New("target not found")
	// ErrConflict: the target changed since it was read at the version given.
	ErrConflict = errors.New("target changed since it was read")
	// ErrForbidden: the credentials or the permission do not suffice.
	ErrForbidden = errors.New("forbidden")
	// ErrUnscalable: the target cannot be scaled until its own configuration
	// changes.
	ErrUnscalable = errors.New("target cannot be scaled")
	// ErrTransient: network trouble, a server's own error; it is tried again as
	// usual.
	ErrTransient = errors.New("temporary failure")
	// ErrWriteTime: a part of a write was made, and the time that the context leaves
	// is too short for more. Who set the deadline knows how long it was.
	ErrWriteTime = errors.New("the time for one write is over")
	// ErrHeld is what every HeldError is.
	ErrHeld = errors.New("held by the platform")
	// ErrThrottled is what every ThrottledError is.
	ErrThrottled = errors.New("throttled")
	// ErrOutOfRange is what every OutOfRangeError is.
	ErrOutOfRange = errors.New("count outside of the platform's bounds")
)

// Classed reports whether an error is of one of these classes already, or an
// [ErrUnknownOutcome].
func Classed(err error) bool {
	return slices.ContainsFunc([]error{
		ErrTargetNotFound, ErrConflict, ErrForbidden, ErrUnscalable, ErrTransient, ErrHeld, ErrThrottled, ErrOutOfRange,
		ErrUnknownOutcome,
	}, func(class error) bool { return errors.Is(err, class) })
}

// ReasonError gives an error a condition reason of its own.
type ReasonError struct {
	// Reason is one CamelCase word: "JobNotFound", "StaticHostPort".
	Reason string
	Err    error
}

// Error returns the error without the reason.
func (e *ReasonError) Error() string { return e.Err.Error() }

// Unwrap returns the error, which has its class.
func (e *ReasonError) Unwrap() error { return e.Err }

// Reason returns the condition reason of an error; "" when it has none of its own.
func Reason(err error) string {
	if reasoned, ok := errors.AsType[*ReasonError](err); ok {
		return reasoned.Reason
	}
	return ""
}

// HeldError is the error of a write that the platform forbids for now. It is an ErrHeld.
type HeldError struct {
	Hold policy.Hold
}

// Error returns the hold's reason and message.
func (e *HeldError) Error() string { return e.Hold.Reason + ": " + e.Hold.Message }

// Is makes every HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// ThrottledError is the error of a call of which there were too many. The whole fleet
// backs off, not only the target. It is an ErrThrottled.
type ThrottledError struct {
	// RetryAfter is how long the platform asked to wait; 0 when it did not.
	RetryAfter time.Duration
	Err        error
}

// Error returns the platform's own words and the wait.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("throttled (retry after %s): %v", e.RetryAfter, e.Err)
}

// Is makes every ThrottledError an ErrThrottled.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Unwrap returns the platform's own error.
func (e *ThrottledError) Unwrap() error { return e.Err }

// OutOfRangeError is the error of a count that the platform's bounds forbid. It is an
// ErrOutOfRange.
type OutOfRangeError struct {
	// Min and Max are the platform's bounds; nil where there is none.
	Min, Max *int32
	Err      error
}

// Error returns the platform's own words.
func (e *OutOfRangeError) Error() string { return fmt.Sprintf("%v: %v", ErrOutOfRange, e.Err) }

// Is makes every OutOfRangeError an ErrOutOfRange.
func (e *OutOfRangeError) Is(target error) bool { return target == ErrOutOfRange }

// Unwrap returns the platform's own error.
func (e *OutOfRangeError) Unwrap() error { return e.Err }

// PartialError is the error of a SetReplicas that did only a part: not all replicas, or
// all of them but not what goes with them, such as saving the count.
type PartialError struct {
	// Reached is the count that the target really has now.
	Reached int32
	// Err is what stopped the rest.
	Err error
}

// Error returns the count that was reached and what stopped the rest.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%d replicas reached: %v", e.Reached, e.Err)
}

// Unwrap returns what stopped the rest.
func (e *PartialError) Unwrap() error { return e.Err }

// ErrUnknownOutcome marks an error of SetReplicas after which nobody knows
// whether the platform took the count: a response that got lost, a deadline that
// passed. The next reading settles it.
var ErrUnknownOutcome = errors.New("outcome of the write is not known")

// CutOff makes an error of a write an [ErrUnknownOutcome] where its context has
// ended, and returns any other one, and nil, as it is.
func CutOff(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// Undelivered makes the error of a write without a response an [ErrTransient], and
// an [ErrUnknownOutcome] besides unless there was never a connection: nothing
// changed then.
func Undelivered(err error) error {
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	return fmt.Errorf("%w: %w: %w", ErrUnknownOutcome, ErrTransient, err)
}

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
