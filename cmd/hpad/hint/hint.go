// Package hint adds to errors what to do about them.
package hint

import "errors"

// Error is an error with a hint what to do about it.
type Error struct {
	Err  error
	Hint string
}

// With returns err with a hint; an empty one adds nothing.
func With(err error, text string) error {
	if text == "" {
		return err
	}
	return &Error{Err: err, Hint: text}
}

// Of returns the first hint in err's tree; empty where there is none.
func Of(err error) string {
	if hinted, ok := errors.AsType[*Error](err); ok {
		return hinted.Hint
	}
	return ""
}

// Error returns the error without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without the hint.
func (e *Error) Unwrap() error { return e.Err }
