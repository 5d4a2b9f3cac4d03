package records

import (
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// Breakers counts the removed instances of fleets with a breaker. It is safe for concurrent use.
type Breakers struct {
	mu sync.Mutex
	// removals maps fleets to their removals. They can include removals older than the window.
	removals map[string]state.Removals
}

// Restore sets the removals to the stored removals.
func (b *Breakers) Restore(removals map[string]state.Removals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removals = removals
}

// Change calls edit with the removals of a fleet within its window, and records the result.
func (b *Breakers) Change(fleet string, window time.Duration, now time.Time, to *Recorder, edit func(*state.Removals)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.removals[fleet].Within(window, now)
	edit(&next)
	b.removals[fleet] = next
	to.removed(fleet, next)
}

// Within returns the removals of a fleet within its window.
func (b *Breakers) Within(fleet string, window time.Duration, now time.Time) state.Removals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.removals[fleet].Within(window, now)
}
