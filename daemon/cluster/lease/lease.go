// Package lease implements the timing of cluster.Session for all stores.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOver is returned if the lease of a member has ended.
var ErrOver = errors.New("the lease of the member has ended")

// A lease is renewed after a third of its TTL, and after a tenth if that fails.
const (
	renewShare = 3
	retryShare = 10
)

// Lease is the lease of a member. It is safe for concurrent use.
type Lease struct {
	// renewing ends with the renewals.
	renewing context.Context
	quit     context.CancelFunc
	end      sync.Once
	ended    chan struct{}

	mu      sync.Mutex
	expires time.Time
}

// New returns a lease that expires at a time, by Go's monotonic clock.
func New(expires time.Time) *Lease {
	l := &Lease{ended: make(chan struct{}), expires: expires}
	l.renewing, l.quit = context.WithCancel(context.Background())
	return l
}

// Keep calls renew until the lease ends or Leave is called, with a third of ttl as its timeout.
// An ErrOver ends the lease. After any other error renew is called again soon, with lost: the
// store may have renewed the lease, and must respond to a read before the next renewal. A
// successful renew calls Renewed.
func (l *Lease) Keep(ttl time.Duration, renew func(ctx context.Context, lost bool) error) {
	next := time.NewTimer(ttl / renewShare)
	defer next.Stop()
	lost := false
	for {
		select {
		case <-l.renewing.Done():
			return
		case <-next.C:
		}
		ctx, cancel := context.WithTimeout(l.renewing, ttl/renewShare)
		err := renew(ctx, lost)
		cancel()
		switch lost = err != nil; {
		case errors.Is(err, ErrOver):
			l.End()
		case lost:
			next.Reset(ttl / retryShare)
		default:
			next.Reset(ttl / renewShare)
		}
	}
}

// Renewed sets the end of the lease: its ttl after the renewal was sent.
func (l *Lease) Renewed(expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = expires
}

// Expires implements cluster.Session.
func (l *Lease) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Ended implements cluster.Session.
func (l *Lease) Ended() <-chan struct{} { return l.ended }

// IsOver reports whether the lease has ended, or may have.
func (l *Lease) IsOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return !time.Now().Before(l.Expires())
	}
}

// Leave stops renewals and cancels an active one. It returns false if the lease has ended
// before.
func (l *Lease) Leave() bool {
	l.quit()
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// End ends the lease and stops renewals. It may be called again.
func (l *Lease) End() {
	l.quit()
	l.end.Do(func() { close(l.ended) })
}
