// Package soak gives tests their long forms, which "make soak" runs.
package soak

import "os"

// Rounds returns how often a test does what it repeats: long times where HPAD_SOAK is
// set, as "make soak" does, else short times.
func Rounds(short, long int) int {
	if os.Getenv("HPAD_SOAK") != "" {
		return long
	}
	return short
}
