// Package wait waits for conditions in tests of what runs outside of them.
package wait

import (
	"testing"
	"time"
)

// interval is how often a condition is looked at.
const interval = 50 * time.Millisecond

// For waits until a condition holds, and ends the test with what was seen last
// when it does not within the limit. The condition is called from the test's own
// goroutine and may end the test itself.
func For(t testing.TB, limit time.Duration, what string, condition func() (seen string, ok bool)) {
	t.Helper()
	if seen, ok := Until(limit, condition); !ok {
		t.Fatalf("no %s within %v, but %s", what, limit, seen)
	}
}

// Until waits until a condition holds, at most so long, and returns what was seen
// last and whether it held.
func Until(limit time.Duration, condition func() (seen string, ok bool)) (string, bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		seen, ok := condition()
		if ok {
			return seen, true
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return seen, false
		}
	}
}
