package azurevmss

import (
	"sync"
	"time"
)

// believed is how long an accepted change is believed where the platform's answers
// do not show it yet.
const believed = time.Minute

// written remembers the changes that the platform accepted: its lists may lag
// behind, and a count that seems unwritten would be taken for somebody else's. It
// is safe for concurrent use; the zero value is ready.
type written struct {
	mu      sync.Mutex
	changes map[key]change
}

// change is one accepted change.
type change struct {
	from, to int32
	// before and after are the set's ETags; after is empty where the answer had none.
	before, after string
	at            time.Time
}

// note remembers a change of a set as it was read before.
func (w *written) note(before *scaleSet, to int32, etag string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes == nil {
		w.changes = map[key]change{}
	}
	w.changes[before.key] = change{from: before.capacity, to: to, before: before.etag, after: etag, at: now}
}

// apply makes a set that was read as it was before the last change what that made
// of it.
func (w *written) apply(s *scaleSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.changes[s.key]
	if !ok {
		return
	}
	same := s.capacity == last.from && s.etag == last.before
	if !same || time.Since(last.at) > believed {
		delete(w.changes, s.key)
		return
	}
	s.capacity = last.to
	if last.after != "" {
		s.etag = last.after
	}
	if !s.busy() {
		s.state = stateUpdating
	}
}
