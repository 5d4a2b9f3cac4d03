package embedded

import (
	"maps"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
)

// ended is what a stopped loop leaves behind.
type ended struct {
	labels labels.Labels
	cache  *seriesCache
}

// legacy is what the loops of an older source left to its successor at a
// reload, by endpoint. Loops of the same endpoints claim theirs; once every pool
// knows its endpoints, the series of the others are marked as ended.
type legacy struct {
	store *store

	mu   sync.Mutex
	left map[string]ended
	// pools counts those that do not know their endpoints yet.
	pools int
}

func newLegacy(held *store, left map[string]ended, pools int) *legacy {
	// The source itself counts too, so that nothing ends before all have begun.
	return &legacy{store: held, left: left, pools: pools + 1}
}

// claim returns what the loop of an endpoint knew; nil where there was none.
func (g *legacy) claim(key string) *seriesCache {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.left[key].cache
	delete(g.left, key)
	return found
}

// settle is called when one pool, and once when the source, has claimed what it will.
func (g *legacy) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pools--
	if g.pools > 0 {
		return
	}
	for key, e := range g.left {
		// A failure is the store's, which reports it itself.
		_ = endSeries(g.store, e.labels, e.cache)
		delete(g.left, key)
	}
}

// unclaimed takes away what nobody claimed yet.
func (g *legacy) unclaimed() map[string]ended {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := maps.Clone(g.left)
	clear(g.left)
	return left
}
