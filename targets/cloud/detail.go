package cloud

import (
	"errors"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// CachedDetail caches an optional detail of readings that is read at its own interval. It is safe
// for concurrent use. The zero CachedDetail has no value.
type CachedDetail[T any] struct {
	mu    sync.Mutex
	value T
	known bool
	err   error
	// read is the time of the last read that succeeded or was forbidden.
	read time.Time
}

// Refresh reads the value unless a read succeeded, or was forbidden, within the interval. A
// failed read does not change the last value.
func (a *CachedDetail[T]) Refresh(interval time.Duration, read func() (T, error)) {
	now := time.Now()
	a.mu.Lock()
	early := now.Sub(a.read) < interval
	if !early {
		a.read = now // only one of several concurrent callers reads
	}
	a.mu.Unlock()
	if early {
		return
	}
	value, err := read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && !errors.Is(err, targets.ErrForbidden) {
		a.read = time.Time{}
	}
	if a.err = err; err == nil {
		a.value, a.known = value, true
	}
}

// Value returns the last value, or false if it has never been read.
func (a *CachedDetail[T]) Value() (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value, a.known
}

// Failure returns the error of the last refresh; nil if it succeeded.
func (a *CachedDetail[T]) Failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}
