package daemon

import (
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// breakers count the removed instances of fleets with a breaker. It is safe for concurrent use.
type breakers struct {
	mu sync.Mutex
	// removals are by fleet, and may include those that are older than the window.
	removals map[string]state.Removals
}

// recall takes over the stored removals.
func (b *breakers) recall(removals map[string]state.Removals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removals = removals
}

// change changes and records the removals of a fleet within its window.
func (b *breakers) change(fleet string, window time.Duration, now time.Time, to *recorder, edit func(*state.Removals)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.removals[fleet].Within(window, now)
	edit(&next)
	b.removals[fleet] = next
	to.removed(fleet, next)
}

// within returns the removals of a fleet within its window.
func (b *breakers) within(fleet string, window time.Duration, now time.Time) state.Removals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.removals[fleet].Within(window, now)
}
