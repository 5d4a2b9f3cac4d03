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

// A lease is renewed after a third of its TTL. A failed renewal is repeated after a tenth.
const (
	renewShare = 3
	retryShare = 10
)

// Lease is a member's lease. It is safe for concurrent use.
type Lease struct {
	// renewing ends when renewals stop.
	renewing context.Context
	quit     context.CancelFunc
	end      sync.Once
	ended    chan struct{}

	mu      sync.Mutex
	expires time.Time
}

// New returns a lease that expires at the given time, by Go's monotonic clock.
func New(expires time.Time) *Lease {
	l := &Lease{ended: make(chan struct{}), expires: expires}
	l.renewing, l.quit = context.WithCancel(context.Background())
	return l
}

// Keep calls renew repeatedly until the lease ends or Leave is called. Each call has a timeout of
// a third of ttl. If renew returns ErrOver, the lease ends. After any other error, Keep soon
// calls renew with lost set to true, because the store may have renewed the lease; renew must
// then receive a response to a read before it renews again. A successful renew must call Renewed.
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

// Renewed sets the time when the lease expires, which is its ttl after the renewal was sent.
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

// IsOver reports whether the lease has ended or may have ended.
func (l *Lease) IsOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return !time.Now().Before(l.Expires())
	}
}

// Leave stops renewals and cancels a renewal in progress. It returns false if the lease had
// already ended.
func (l *Lease) Leave() bool {
	l.quit()
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// End ends the lease and stops renewals. It may be called several times.
func (l *Lease) End() {
	l.quit()
	l.end.Do(func() { close(l.ended) })
}
