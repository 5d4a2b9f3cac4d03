package cloud

import (
	"slices"
	"sync"
	"time"
)

// believed is how long an accepted change is believed where the platform does not show
// it yet.
const believed = time.Minute

// Written remembers the changes that a platform accepted, each as a C, by target. What
// the platform says may lag behind: a count that seems unwritten would be taken for
// somebody else's. It is safe for concurrent use; the zero value remembers none.
type Written[K comparable, C any] struct {
	mu     sync.Mutex
	unseen map[K]unseen[C]
}

// unseen are changes that were not seen yet, oldest first.
type unseen[C any] struct {
	// versions are those that the target had before each of them.
	versions []string
	changes  []C
	at       time.Time
}

// Add remembers a change of a target that had a version before.
func (w *Written[K, C]) Add(target K, version string, change C, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unseen == nil {
		w.unseen = map[K]unseen[C]{}
	}
	last := w.unseen[target]
	w.unseen[target] = unseen[C]{versions: append(last.versions, version), changes: append(last.changes, change), at: now}
}

// Unseen returns the changes that the platform does not show yet, oldest first, where
// it shows a target at a version from before one of them. Any other version, and a
// minute without another change, ends that.
func (w *Written[K, C]) Unseen(target K, version string, now time.Time) []C {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.unseen[target]
	if !slices.Contains(last.versions, version) || now.Sub(last.at) > believed {
		delete(w.unseen, target)
		return nil
	}
	return slices.Clone(last.changes)
}
