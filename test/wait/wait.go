// Package wait waits for conditions in tests of what runs outside of them.
package wait

import (
	"testing"
	"time"
)

// A condition is looked at again after the shortest pause, after a longer one where looks
// take long, so that they are not what keeps an engine busy, and after the longest at
// most.
const (
	shortest = 20 * time.Millisecond
	longest  = time.Second
	// ofLook is how many times as long as a look a pause is.
	ofLook = 4
)

// For waits until a condition holds, and ends the test with what was seen last
// when it does not within the limit. The condition is called from the test's own
// goroutine and may end the test itself.
func For(t testing.TB, limit time.Duration, what string, condition func() (seen string, ok bool)) {
	t.Helper()
	if seen, ok := Until(limit, condition); !ok {
		t.Fatalf("no %s within %v, but %s", what, limit, seen)
	}
}

// Soon waits until something holds that takes no minute on the slowest machine, and ends the
// test when it does not.
func Soon(t testing.TB, what string, holds func() bool) {
	t.Helper()
	For(t, time.Minute, what, func() (string, bool) { return "it is not there", holds() })
}

// Until waits until a condition holds, at most so long, and returns what was seen
// last and whether it held.
func Until(limit time.Duration, condition func() (seen string, ok bool)) (string, bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		begin := time.Now()
		seen, ok := condition()
		if ok {
			return seen, true
		}
		select {
		case <-time.After(min(max(shortest, ofLook*time.Since(begin)), longest)):
		case <-deadline.C:
			return seen, false
		}
	}
}
