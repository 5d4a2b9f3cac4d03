package daemon

import (
	"sync"
	"time"

	"github.com/hpad/hpad/daemon/state"
)

// breakers count what the autoscalers of fleets with a breaker take away. It is safe for
// concurrent use.
type breakers struct {
	mu sync.Mutex
	// removals are by fleet; what counts no more may still be among them.
	removals map[string]state.Removals
}

// recall takes over what the state has.
func (b *breakers) recall(removals map[string]state.Removals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removals = removals
}

// change changes what a fleet's breaker counts, without what is older than its window by
// now, and has that recorded.
func (b *breakers) change(fleet string, window time.Duration, now time.Time, to *recorder, how func(*state.Removals)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.removals[fleet].Within(window, now)
	how(&next)
	b.removals[fleet] = next
	to.removed(fleet, next)
}
