// Package wait waits for conditions in tests of external systems.
package wait

import (
	"testing"
	"time"
)

// The pause between two checks is proportional to the duration of a check, and to the time so far,
// so that many waiting tests do not keep the system busy.
const (
	shortest = 10 * time.Millisecond
	longest  = time.Second
	// pauseRatio is the ratio of a pause to the duration of a check.
	pauseRatio = 5
	// A pause is a tenth of the time so far, up to longestDelay, so a wait takes at most a tenth longer.
	delayRatio   = 10
	longestDelay = 250 * time.Millisecond
)

// pause returns the pause after a check.
func pause(check, soFar time.Duration) time.Duration {
	return min(max(shortest, pauseRatio*check, min(soFar/delayRatio, longestDelay)), longest)
}

// For waits until condition returns true. If condition does not return true within limit, For fails
// the test with the last value of seen. For calls condition from the test's goroutine, so condition
// may fail the test.
func For(t testing.TB, limit time.Duration, what string, condition func() (seen string, ok bool)) {
	t.Helper()
	if seen, ok := Until(limit, condition); !ok {
		t.Fatalf("no %s within %v, but %s", what, limit, seen)
	}
}

// Soon is like For with a limit of three minutes.
func Soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	For(t, 3*time.Minute, what, func() (string, bool) { return "it is missing", holds() })
}

// Until waits up to limit until condition returns true, and returns the last result of condition.
func Until(limit time.Duration, condition func() (seen string, ok bool)) (string, bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for first := time.Now(); ; {
		begin := time.Now()
		seen, ok := condition()
		if ok {
			return seen, true
		}
		select {
		case <-time.After(pause(time.Since(begin), time.Since(first))):
		case <-deadline.C:
			return seen, false
		}
	}
}
