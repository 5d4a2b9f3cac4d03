// Package hint adds remedies to errors.
package hint

import "errors"

// Error adds a hint that describes the remedy.
type Error struct {
	Err  error
	Hint string
}

// With adds a hint to err. It returns err unchanged if the hint is empty.
func With(err error, text string) error {
	if text == "" {
		return err
	}
	return &Error{Err: err, Hint: text}
}

// Of returns the first hint in the error tree of err, or "".
func Of(err error) string {
	if hinted, ok := errors.AsType[*Error](err); ok {
		return hinted.Hint
	}
	return ""
}

// Error returns the text of the error without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without the hint.
func (e *Error) Unwrap() error { return e.Err }
