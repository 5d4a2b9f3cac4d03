package targets

import (
	"errors"
	"fmt"
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
