package cloud

import (
	"errors"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// Aside is what readings can do without, and is read beside them from time to time. It
// is safe for concurrent use; the zero value was never read.
type Aside[T any] struct {
	mu    sync.Mutex
	value T
	known bool
	err   error
	due   time.Time
}

// Refresh reads the value anew, unless it was read, or forbidden to be read, within the
// interval. One that cannot be read stays as it was.
func (a *Aside[T]) Refresh(interval time.Duration, read func() (T, error)) {
	a.do(interval, read, func(err error) bool { return err == nil || errors.Is(err, targets.ErrForbidden) })
}

// Try reads the value anew, unless that failed within the interval.
func (a *Aside[T]) Try(interval time.Duration, read func() (T, error)) {
	a.do(interval, read, func(err error) bool { return err != nil })
}

// do reads the value anew where it is due: after the interval where rests says so of
// the error, and at once otherwise.
func (a *Aside[T]) do(interval time.Duration, read func() (T, error), rests func(error) bool) {
	now := time.Now()
	a.mu.Lock()
	early := now.Before(a.due)
	if !early {
		a.due = now.Add(interval) // one caller reads
	}
	a.mu.Unlock()
	if early {
		return
	}
	value, err := read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !rests(err) {
		a.due = time.Time{}
	}
	if a.err = err; err == nil {
		a.value, a.known = value, true
	}
}

// Expire makes the next Refresh or Try read the value anew.
func (a *Aside[T]) Expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Time{}
}

// Value returns what was read last; false says that nothing was.
func (a *Aside[T]) Value() (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value, a.known
}

// Failure returns why the last reading failed; nil when it did not.
func (a *Aside[T]) Failure() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}
