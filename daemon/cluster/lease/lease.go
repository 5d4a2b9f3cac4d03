// Package lease keeps the leases by which members of a cluster are members, for the stores
// that cluster.Coordinator has.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrOver is that a member's lease is over.
var ErrOver = errors.New("the member's lease is over")

// A lease is renewed each third of its time, and where that fails each tenth.
const (
	renewShare = 3
	retryShare = 10
)

// Lease is a member's: the half of cluster.Session that has to do with time. Make one with
// New. It is safe for concurrent use.
type Lease struct {
	// renewing ends once nobody is to renew it any more.
	renewing context.Context
	quit     context.CancelFunc
	end      sync.Once
	ended    chan struct{}

	mu      sync.Mutex
	expires time.Time
}

// New returns a lease that expires at a time, by Go's monotonic clock, and that nobody
// renews yet.
func New(expires time.Time) *Lease {
	l := &Lease{ended: make(chan struct{}), expires: expires}
	l.renewing, l.quit = context.WithCancel(context.Background())
	return l
}

// Keep has renew called until the lease has ended or was left, for which it gets a third of
// ttl each time. An ErrOver ends the lease; after any other error it is called again soon,
// with lost: the store may have renewed the lease, and has to answer something before it is
// asked to again. What succeeds calls Renewed.
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

// Renewed has the lease expire at another time: its ttl after the renewal was sent.
func (l *Lease) Renewed(expires time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expires = expires
}

// Expires is as cluster.Session has it.
func (l *Lease) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Ended is as cluster.Session has it.
func (l *Lease) Ended() <-chan struct{} { return l.ended }

// IsOver reports whether the lease is over, or may be.
func (l *Lease) IsOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return !time.Now().Before(l.Expires())
	}
}

// Leave stops renewals, also one that is under way. It returns false where the lease has
// ended before.
func (l *Lease) Leave() bool {
	l.quit()
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// End ends the lease, and stops renewals. It may be called again.
func (l *Lease) End() {
	l.quit()
	l.end.Do(func() { close(l.ended) })
}
