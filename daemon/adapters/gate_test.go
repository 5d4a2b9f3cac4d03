package adapters

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// outcomes contains the results of the calls that Run made, by number.
type outcomes struct {
	mu      sync.Mutex
	done    map[int]bool
	expired map[int]error
	// most is the highest number of concurrent calls so far.
	under, most int
}

// run makes n calls that each take the given time.
func run(ctx context.Context, g Gate, n int, takes time.Duration) *outcomes {
	o := &outcomes{done: map[int]bool{}, expired: map[int]error{}}
	g.Run(ctx, n, func(_ context.Context, i int) {
		o.mu.Lock()
		o.under++
		o.most = max(o.most, o.under)
		o.mu.Unlock()
		time.Sleep(takes)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.under--
		o.done[i] = true
	}, func(i int, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.expired[i] = err
	})
	return o
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		o := run(t.Context(), newGate(2), 5, time.Second)
		if len(o.done) != 5 || len(o.expired) != 0 || o.most != 2 {
			t.Errorf("%d calls made, %d expired, %d at once; want 5, none, 2", len(o.done), len(o.expired), o.most)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("5 calls of 1s took %v, want 3s", took)
		}
	})
}

// TestGateHung checks that hanging calls do not delay Run, that they keep their places, and that
// the next round gets an error about them.
func TestGateHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, hung := newGate(2), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		g.Run(ctx, 3, func(context.Context, int) { <-hung }, func(int, error) {})
		if took := time.Since(begun); took != time.Second+CallGrace {
			t.Errorf("Run returned after %v, want 1s and %v", took, CallGrace)
		}
		again, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := run(again, g, 1, 0)
		const want = "2 earlier calls have not returned yet: context deadline exceeded"
		if err := o.expired[0]; len(o.done) != 0 || err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the next call ends with %v, want %q", err, want)
		}
		close(hung)
		synctest.Wait()
		if o := run(t.Context(), g, 3, time.Second); len(o.done) != 3 || len(o.expired) != 0 {
			t.Errorf("%d calls made and %d expired once the others returned, want 3 and none", len(o.done), len(o.expired))
		}
	})
}
