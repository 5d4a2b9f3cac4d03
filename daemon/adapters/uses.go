package adapters

import (
	"context"
	"sync"
)

// Uses counts the users of an adapter, so that a replaced one is closed after its last use. The
// zero value is ready to use.
type Uses struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count reaches 0 during a wait
}

// Begin adds a user.
func (u *Uses) Begin() {
	u.mu.Lock()
	u.count++
	u.mu.Unlock()
}

// End removes a user.
func (u *Uses) End() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	if u.count == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// wait returns without users, or when ctx ends.
func (u *Uses) wait(ctx context.Context) {
	u.mu.Lock()
	if u.count == 0 {
		u.mu.Unlock()
		return
	}
	if u.idle == nil {
		u.idle = make(chan struct{})
	}
	idle := u.idle
	u.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
