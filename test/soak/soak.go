// Package soak selects the tests that "make test" leaves out, and the long versions of tests for
// "make soak".
package soak

import (
	"os"
	"testing"
)

// Rounds returns long if HPAD_SOAK is set; otherwise it returns short.
func Rounds[T any](short, long T) T {
	if os.Getenv("HPAD_SOAK") != "" {
		return long
	}
	return short
}

// All reports whether all tests run: CI=true or HPAD_SOAK is set.
func All() bool { return os.Getenv("CI") == "true" || os.Getenv("HPAD_SOAK") != "" }

// Complete skips a test unless All returns true. Call it in tests whose subject "make test" also
// checks with a shorter test.
func Complete(t testing.TB) {
	t.Helper()
	if !All() {
		t.Skip("runs with CI=true and in make soak")
	}
}
