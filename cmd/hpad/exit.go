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
	// exitInvalidConfig is returned by "hpad check" if the configuration has errors.
	exitInvalidConfig = 3
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// wrongUse marks an error as a usage error and adds a hint.
func wrongUse(err error, text string) error { return usageError{hint.With(err, text)} }

func exitCode(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitWrongUse
	}
	if _, ok := errors.AsType[*checkError](err); ok {
		return exitInvalidConfig
	}
	return exitFailure
}

// report writes an error with its hint. It writes joined errors separately, followed by their
// common hint.
func report(w io.Writer, err error) {
	advice := ""
	if hinted, ok := err.(*hint.Error); ok { //nolint:errorlint // Only errors joined at the top level are separate.
		advice, err = hinted.Hint, hinted.Err
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // As above.
		for _, err := range joined.Unwrap() {
			report(w, err)
		}
	} else {
		notice(w, "error", "%s", redact.Text(err.Error()))
		advice = cmp.Or(advice, hintOf(err))
	}
	if advice != "" {
		notice(w, "hint", "%s", advice)
	}
}

// notice writes a line to the error stream. It ignores write errors.
func notice(w io.Writer, kind, format string, args ...any) {
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
		return "set --username and --password-file, or HPAD_USERNAME and HPAD_PASSWORD_FILE; --socket on the same host needs no password"
	}
	return ""
}
