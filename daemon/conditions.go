package daemon

import (
	"slices"
	"sync"

	"github.com/hpad/hpad/policy"
)

// conditionLists are lists of conditions that autoscalers have had lately: many have the
// same, since the same tick, and then one list. Nobody changes a list. It is safe for
// concurrent use.
type conditionLists struct {
	mu    sync.Mutex
	lists [sharedConditions][]policy.Condition
	next  int
}

// sharedConditions is how many lists are looked at.
const sharedConditions = 64

// share returns a list that says the same, which is given to others as well.
func (c *conditionLists) share(list []policy.Condition) []policy.Condition {
	if len(list) == 0 {
		return list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.lists {
		if slices.Equal(known, list) {
			return known
		}
	}
	c.lists[c.next] = list
	c.next = (c.next + 1) % len(c.lists)
	return list
}
