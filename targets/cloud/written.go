package cloud

import (
	"slices"
	"sync"
	"time"
)

// believed is how long an accepted write counts while the platform does not show it.
const believed = time.Minute

// write is an accepted write of a group.
type write struct {
	size int32
	// identity is the group's afterwards; empty if it did not change.
	identity string
	// removed are the handles of removed instances.
	removed []string
}

// written remembers the writes that a platform accepted. Its reads may lag behind: a size
// that seems unwritten would count as the change of an external writer. It is safe for
// concurrent use; the zero value is empty.
type written[N comparable] struct {
	mu    sync.Mutex
	known map[N]unseen
}

// unseen are writes that were not read yet, the oldest first.
type unseen struct {
	// versions are the group's before each write.
	versions []string
	writes   []write
	at       time.Time
}

// add remembers a write of a group that had a version before.
func (w *written[N]) add(name N, version string, next write, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[N]unseen{}
	}
	last := w.known[name]
	w.known[name] = unseen{append(last.versions, version), append(last.writes, next), now}
}

// unseen returns the writes that the platform does not show yet, the oldest first, if it
// shows a group at a version from before one of them. Any other version, and a minute
// without another write, ends that.
func (w *written[N]) unseen(name N, version string, now time.Time) []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.known[name]
	if !slices.Contains(last.versions, version) || now.Sub(last.at) > believed {
		delete(w.known, name)
		return nil
	}
	return slices.Clone(last.writes)
}
