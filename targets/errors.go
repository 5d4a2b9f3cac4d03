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

// The classes of errors that a fleet returns, for errors.Is.
var (
	// ErrTargetNotFound: the target does not exist.
	ErrTargetNotFound = errors.New("target not found")
	// ErrConflict: the target is no longer at the given version.
	ErrConflict = errors.New("target changed since it was read")
	// ErrForbidden: the credentials or permissions are insufficient.
	ErrForbidden = errors.New("forbidden")
	// ErrUnscalable: the target cannot be scaled until its own configuration
	// changes.
	ErrUnscalable = errors.New("target cannot be scaled")
	// ErrTransient: a network or server error. hpad tries again later.
	ErrTransient = errors.New("temporary failure")
	// ErrWriteTime: part of a write was completed, but the remaining time is too short for the
	// rest.
	ErrWriteTime = errors.New("time limit for one write exceeded")
	// ErrHeld is the class of every HeldError.
	ErrHeld = errors.New("target is held")
	// ErrThrottled is the class of every ThrottledError.
	ErrThrottled = errors.New("throttled")
	// ErrOutOfRange is the class of every OutOfRangeError.
	ErrOutOfRange = errors.New("count outside of the platform's bounds")
)

// HasClass reports whether an error has one of the classes of a fleet's errors, or is an
// [ErrUnknownOutcome].
func HasClass(err error) bool {
	return slices.ContainsFunc([]error{
		ErrTargetNotFound, ErrConflict, ErrForbidden, ErrUnscalable, ErrTransient, ErrHeld, ErrThrottled, ErrOutOfRange,
		ErrUnknownOutcome,
	}, func(class error) bool { return errors.Is(err, class) })
}

// ReasonError adds a condition reason to an error.
type ReasonError struct {
	// Reason is one CamelCase word: "JobNotFound", "StaticHostPort".
	Reason string
	Err    error
}

func (e *ReasonError) Error() string { return e.Err.Error() }

func (e *ReasonError) Unwrap() error { return e.Err }

// Reason returns the condition reason of an error; "" if it has none.
func Reason(err error) string {
	if reasoned, ok := errors.AsType[*ReasonError](err); ok {
		return reasoned.Reason
	}
	return ""
}

// HeldError is the error for a write that the platform currently rejects, or that hpad does not
// attempt because of the state of the target.
type HeldError struct {
	Hold policy.Hold
}

func (e *HeldError) Error() string { return e.Hold.Reason + ": " + e.Hold.Message }

// Is makes every HeldError an ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// ThrottledError is the error for a call that the platform throttled. The whole fleet pauses its
// calls.
type ThrottledError struct {
	// RetryAfter is the pause that the platform requires, or 0.
	RetryAfter time.Duration
	Err        error
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("throttled (retry after %s): %v", e.RetryAfter, e.Err)
}

// Is makes every ThrottledError an ErrThrottled.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

func (e *ThrottledError) Unwrap() error { return e.Err }

// OutOfRangeError is the error for a count outside of the platform's bounds.
type OutOfRangeError struct {
	// Min and Max are the platform's bounds, or nil.
	Min, Max *int32
	Err      error
}

func (e *OutOfRangeError) Error() string { return fmt.Sprintf("%v: %v", ErrOutOfRange, e.Err) }

// Is makes every OutOfRangeError an ErrOutOfRange.
func (e *OutOfRangeError) Is(target error) bool { return target == ErrOutOfRange }

func (e *OutOfRangeError) Unwrap() error { return e.Err }

// PartialError is the error for a SetReplicas call that succeeded only in part: the count differs
// from the requested count, or a secondary action such as saving the count failed.
type PartialError struct {
	// Reached is the current count of the target.
	Reached int32
	// Err is the reason for the incomplete change.
	Err error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("%d replicas reached: %v", e.Reached, e.Err)
}

func (e *PartialError) Unwrap() error { return e.Err }

// WithClass adds a class to an error without adding the class's text to the message. Use it if the
// message already describes the class, or if a second class would separate it from the cause.
func WithClass(class, err error) error { return &classifiedError{class, err} }

type classifiedError struct{ class, err error }

func (e *classifiedError) Error() string { return e.err.Error() }

func (e *classifiedError) Unwrap() []error { return []error{e.err, e.class} }

// ErrUnknownOutcome marks the error of a write that the platform may have accepted, for example
// if the response was lost or a deadline passed. The next reading reveals the outcome.
var ErrUnknownOutcome = errors.New("outcome of the write is unknown")

// WithUnknownOutcome marks the error of a write as an [ErrUnknownOutcome] if the write's context
// has ended. Otherwise it returns the error unchanged.
func WithUnknownOutcome(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ErrUnknownOutcome) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

// WithoutResponse marks the error of a write without a response as an [ErrTransient]. Unless the
// connection could not be established, it also marks it as an [ErrUnknownOutcome].
func WithoutResponse(err error) error {
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, WithClass(ErrTransient, err))
}

// ErrTimeout means that a call exceeded its fleet's timeout.
var ErrTimeout = errors.New("no response within the fleet's timeout")

// WithCallTimeout returns a context that limits one call to the fleet's timeout.
func WithCallTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w of %v", ErrTimeout, timeout))
}

// AsTimeout returns an [ErrTimeout] in place of an error if the timeout of a [WithCallTimeout]
// context has passed. Otherwise it returns the error unchanged.
func AsTimeout(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrTimeout) {
		return cause
	}
	return err
}
