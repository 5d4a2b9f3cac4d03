package cloud

import (
	"sync"
	"time"

	"github.com/hpad/hpad/policy"
)

// Failures are what became of changes that the platform accepted and did not carry out,
// by target. They are safe for concurrent use; the zero value has none.
type Failures[K comparable] struct {
	mu    sync.Mutex
	known map[K]failure
}

type failure struct {
	notice policy.Notice
	until  time.Time
}

// Record remembers a failure, which is shown until a time at least.
func (f *Failures[K]) Record(target K, notice policy.Notice, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[K]failure{}
	}
	f.known[target] = failure{notice: notice, until: until}
}

// Clear forgets the failure of a target, as when it is changed again.
func (f *Failures[K]) Clear(target K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, target)
}

// Notices returns the failure of a target: until its time, and as long as lasting is
// true after that.
func (f *Failures[K]) Notices(target K, lasting bool, now time.Time) []policy.Notice {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok := f.known[target]
	if !ok {
		return nil
	}
	if !lasting && now.After(known.until) {
		delete(f.known, target)
		return nil
	}
	return []policy.Notice{known.notice}
}
