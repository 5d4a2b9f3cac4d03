// Package soak gives tests their long forms, which "make soak" runs.
package soak

import "os"

// Rounds returns how often a test does what it repeats, or on what: long where HPAD_SOAK is
// set, as "make soak" does, else short.
func Rounds[T any](short, long T) T {
	if os.Getenv("HPAD_SOAK") != "" {
		return long
	}
	return short
}
