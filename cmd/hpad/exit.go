package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/hpad/hpad/cmd/hpad/hint"
	"github.com/hpad/hpad/cmd/hpad/show"
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

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// wrongUse marks an error as a mistake in the command line, with a hint.
func wrongUse(err error, text string) error { return usageError{hint.With(err, text)} }

func exitCode(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitWrongUse
	}
	if _, ok := errors.AsType[*checkError](err); ok {
		return exitMistakes
	}
	return exitFailure
}

// report writes an error, without what may be secret in it, and its hint where there
// is one. Errors that are joined are written one by one, and then the hint they have
// in common.
func report(w io.Writer, err error) {
	advice := ""
	if hinted, ok := err.(*hint.Error); ok { //nolint:errorlint // Only errors joined at the very top are separate.
		advice, err = hinted.Hint, hinted.Err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // As above.
		for _, one := range joined.Unwrap() {
			report(w, one)
		}
	} else {
		// When even this cannot be written nobody is left to read it.
		label := "hpad: error:"
		if coloured(w) {
			label = show.Problem(label)
		}
		_, _ = fmt.Fprintf(w, "%s %s\n", label, show.Clean(redact.Text(err.Error())))
		advice = cmp.Or(advice, hintOf(err))
	}
	if advice != "" {
		notice(w, "hint", "%s", advice)
	}
}

// notice writes a line beside the output of a command.
func notice(w io.Writer, kind, format string, args ...any) {
	// The exit code of the command does not depend on it, so a write error is ignored.
	_, _ = fmt.Fprintf(w, "hpad: %s: %s\n", kind, show.Clean(fmt.Sprintf(format, args...)))
}

func hintOf(err error) string {
	if text := hint.Of(err); text != "" {
		return text
	}
	if reach, ok := errors.AsType[*api.ReachError](err); ok {
		return reach.Hint
	}
	if failed, ok := errors.AsType[*api.Error](err); ok && failed.Type == api.ErrorUnauthorized {
		return "say who you are with --username and --password-file, or HPAD_USERNAME and HPAD_PASSWORD_FILE; on the machine itself, --socket needs none"
	}
	return ""
}
