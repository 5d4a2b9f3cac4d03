package adapters

import (
	"context"
	"sync"
)

// Uses counts who is using an adapter, so that one which a reload replaced is closed
// when the last of them is through. The zero value is ready to use.
type Uses struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count falls to 0 after release was asked for
}

// Begin counts one more, which calls End when it is through.
func (u *Uses) Begin() {
	u.mu.Lock()
	u.count++
	u.mu.Unlock()
}

// End counts one less.
func (u *Uses) End() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	if u.count == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// wait returns when nobody uses the adapter, or when ctx ends.
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
