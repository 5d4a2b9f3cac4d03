package adapters

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// CallGrace is the time for a call to return after its context has ended.
const CallGrace = 50 * time.Millisecond

// Gate limits the concurrent calls into an adapter, including calls that an earlier round
// abandoned.
type Gate struct{ places chan struct{} }

func newGate(limit int) Gate { return Gate{places: make(chan struct{}, limit)} }

// Run makes n calls within the limit, and returns after each has ended by itself, or by expire
// after ctx has ended. It does not wait for a call that ignores its context; such a call keeps its
// place until it returns. Both do and expire may be called for the same i, in either order; the
// first one counts.
func (g Gate) Run(ctx context.Context, n int, do func(ctx context.Context, i int), expire func(i int, err error)) {
	var next atomic.Int32
	var running sync.WaitGroup
	finished := make(chan struct{})
	for range min(cap(g.places), n) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && g.enter(ctx); i = int(next.Add(1)) - 1 {
				do(ctx, i)
				<-g.places
			}
		})
	}
	go func() {
		running.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		grace := time.NewTimer(CallGrace)
		defer grace.Stop()
		select {
		case <-finished:
		case <-grace.C:
		}
	}
	if ctx.Err() != nil {
		err := context.Cause(ctx)
		if hung := len(g.places); hung == cap(g.places) {
			err = fmt.Errorf("%d earlier calls have not returned yet: %w", hung, err)
		}
		for i := range n {
			expire(i, err)
		}
	}
}

// enter takes a place; false if ctx ended first.
func (g Gate) enter(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case g.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
