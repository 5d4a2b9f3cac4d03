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

// Complete skips a test unless CI=true or HPAD_SOAK is set. Call it in tests whose subject "make test"
// also checks with a shorter test.
func Complete(t testing.TB) {
	t.Helper()
	if os.Getenv("CI") != "true" && os.Getenv("HPAD_SOAK") == "" {
		t.Skip("runs with CI=true and in make soak")
	}
}
