// Package lease implements the timing of cluster.Session for all stores.
package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/guard"
)

// ErrOver is returned if the lease of a member has ended.
var ErrOver = errors.New("the lease of the member has ended")

// A lease is renewed after a third of its TTL. A failed renewal is repeated after a tenth of the
// TTL.
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

	mu sync.Mutex
	// sent is the time when the last successful renewal was sent. The lease lasts ttl from that
	// time.
	sent instant
	ttl  time.Duration
}

// instant is a time on a clock that also runs while the host is suspended.
type instant struct {
	at     time.Time
	asleep time.Duration
}

// Now returns the current Instant.
func Now() instant { return instant{at: time.Now(), asleep: asleep()} }

// asleep returns the time for which the host has been suspended since its boot. Tests replace it.
var asleep = func() time.Duration {
	var boot, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - awake.Nano())
}

// shortestSleep is the shortest difference between the two clocks that is treated as a suspension.
// The clocks are read one after the other, which causes smaller differences.
const shortestSleep = 100 * time.Millisecond

// New returns a lease that expires ttl after the request for it was sent.
func New(sent instant, ttl time.Duration) *Lease {
	l := &Lease{ended: make(chan struct{}), sent: sent, ttl: ttl}
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
		err := guard.Call(func() error { return renew(ctx, lost) })
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

// Renewed records that a renewal succeeded. The lease expires ttl after the renewal was sent.
func (l *Lease) Renewed(sent instant, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.ttl = sent, ttl
}

// Expires implements cluster.Session. Go's monotonic clock does not count the time for which the
// host was suspended, so Expires subtracts that time.
func (l *Lease) Expires() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	expires := l.sent.at.Add(l.ttl)
	if slept := asleep() - l.sent.asleep; slept >= shortestSleep {
		expires = expires.Add(-slept)
	}
	return expires
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
