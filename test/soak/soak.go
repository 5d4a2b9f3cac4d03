// Package soak selects the long version of tests for "make soak".
package soak

import "os"

// Rounds returns long if HPAD_SOAK is set; otherwise it returns short.
func Rounds[T any](short, long T) T {
	if os.Getenv("HPAD_SOAK") != "" {
		return long
	}
	return short
}
