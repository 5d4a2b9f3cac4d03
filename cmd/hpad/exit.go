package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/redact"
)

// The exit codes of hpad.
const (
	exitFine     = 0
	exitFailure  = 1
	exitWrongUse = 2
	// exitMistakes is that of "hpad check" when it found errors.
	exitMistakes = 3
)

// usageError is a mistake in the command line itself.
type usageError struct {
	hintedError
}

// hintedError is an error with a hint what to do about it.
type hintedError struct {
	err  error
	hint string
}

// Error answers the error without the hint.
func (e *hintedError) Error() string { return e.err.Error() }

// Unwrap answers the error without the hint.
func (e *hintedError) Unwrap() error { return e.err }

// wrongUse marks an error as a mistake in the command line.
func wrongUse(err error, hint string) error {
	return &usageError{hintedError{err: err, hint: hint}}
}

// withHint adds a hint to an error; an empty one adds nothing.
func withHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return &hintedError{err: err, hint: hint}
}

// exitCode answers the exit code that an error stands for.
func exitCode(err error) int {
	var usage *usageError
	if errors.As(err, &usage) {
		return exitWrongUse
	}
	var check *checkError
	if errors.As(err, &check) {
		return exitMistakes
	}
	return exitFailure
}

// report tells an error, without what may be secret in it, and, where there is one,
// its hint. Errors that are joined
// are told one by one, and then the hint they have in common.
func report(w io.Writer, err error) {
	hint := ""
	if hinted, ok := err.(*hintedError); ok { //nolint:errorlint // Only errors joined at the very top are told apart.
		hint, err = hinted.hint, hinted.err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // As above.
		for _, one := range joined.Unwrap() {
			report(w, one)
		}
	} else {
		// When even this cannot be written there is nobody left to tell.
		_, _ = fmt.Fprintf(w, "hpad: error: %s\n", strings.Map(printable, redact.Text(err.Error())))
		hint = cmp.Or(hint, hintOf(err))
	}
	if hint != "" {
		_, _ = fmt.Fprintf(w, "hpad: hint: %s\n", hint)
	}
}

// hintOf answers what to do about an error, or nothing.
func hintOf(err error) string {
	var usage *usageError
	if errors.As(err, &usage) {
		return usage.hint
	}
	var hinted *hintedError
	if errors.As(err, &hinted) {
		return hinted.hint
	}
	var file *confd.FileError
	if errors.As(err, &file) {
		return file.Hint
	}
	var reach *api.ReachError
	if errors.As(err, &reach) {
		return reach.Hint
	}
	var answered *api.Error
	if errors.As(err, &answered) && answered.Type == api.ErrorUnauthorized {
		return "say who you are with --username and --password-file, or HPAD_USERNAME and HPAD_PASSWORD_FILE; on the machine itself, --socket needs none"
	}
	return ""
}
