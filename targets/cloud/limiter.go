package cloud

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
)

// Class is a group of calls with a common limit.
type Class string

// The classes of calls.
const (
	Read  Class = "read"
	Write Class = "write"
)

// Limit is a token bucket.
type Limit struct {
	// PerSecond is the rate of calls, more than 0.
	PerSecond float64
	// Burst is the maximum number of calls after a pause, at least 1.
	Burst int
}

// Saved returns a limit of perSecond calls per second. The burst is the number of calls in the
// given number of seconds.
func Saved(perSecond, seconds float64) Limit {
	return Limit{PerSecond: perSecond, Burst: max(1, int(perSecond*seconds))}
}

// Limits contains the rate limits for a fleet's calls.
type Limits struct {
	// Calls maps classes to their limits; other classes have no limit.
	Calls map[Class]Limit
	// TargetCalls contains additional limits for the calls of each target.
	TargetCalls map[Class]Limit
}

// Call is one call to the platform.
type Call struct {
	// Operation is the platform's name for the call, for metrics.
	Operation string
	Class     Class
	// Target is set if the platform limits the calls of each target.
	Target string
}

// Limiter keeps a fleet's calls to one account within limits, and pauses after the platform has
// throttled a call. Create one with [NewLimiter]. It is safe for concurrent use.
type Limiter struct {
	// Timeout limits each call; 0 means no limit. Errors classifies the errors of calls; it may be
	// nil. They must be set before the first call.
	Timeout time.Duration
	Errors  *Errors
	// Lease restricts calls of classes other than Read; it may be nil.
	Lease targets.Lease

	limits  Limits
	meter   targets.Meter
	backoff targets.Backoff

	mu      sync.Mutex
	buckets map[bucketKey]*rate.Limiter
}

type bucketKey struct {
	target string
	class  Class
}

// NewLimiter returns a limiter with full buckets. The meter may be nil.
func NewLimiter(limits Limits, meter targets.Meter) *Limiter {
	return &Limiter{limits: limits, meter: meter, buckets: map[bucketKey]*rate.Limiter{}}
}

// Do waits until the limits allow the call, makes it, and reports the wait and the call to the
// meter. During a pause after throttling, and if the limits do not allow the call before ctx
// ends, it makes no call and returns a [targets.ThrottledError]. If the call returns an
// ErrThrottled, a pause starts.
func (l *Limiter) Do(ctx context.Context, c Call, call func(ctx context.Context) error) error {
	if err := l.admit(ctx, c); err != nil {
		return err
	}
	if c.Class != Read {
		leased, cancel, err := l.Lease.Begin(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		ctx = leased
	}
	begun := time.Now()
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = targets.WithCallTimeout(ctx, l.Timeout)
		defer cancel()
	}
	err := l.Errors.Classify(ctx, c.Class, call(ctx))
	now := time.Now()
	if l.meter != nil {
		l.meter.Call(c.Operation, now.Sub(begun), err)
	}
	l.backoff.Record(err, begun, now)
	return err
}

// refusal returns the error that calls return during a pause after throttling, or nil if there is
// no pause.
func (l *Limiter) refusal() error {
	return l.backoff.Wait()
}

func (l *Limiter) admit(ctx context.Context, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.refusal(); err != nil {
		return err
	}
	begun := time.Now()
	for _, bucket := range l.bucketsOf(c) {
		if err := waitFor(ctx, bucket, c); err != nil {
			return err
		}
	}
	waited := time.Since(begun)
	if waited < time.Millisecond {
		return nil
	}
	if l.meter != nil {
		l.meter.Wait(c.Operation, waited)
	}
	return l.refusal() // a pause may have started during the wait
}

// bucketsOf returns the buckets for a call, the target's bucket first.
func (l *Limiter) bucketsOf(c Call) []*rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []*rate.Limiter
	add := func(limit Limit, limited bool, key bucketKey) {
		if !limited {
			return
		}
		if l.buckets[key] == nil {
			l.buckets[key] = rate.NewLimiter(rate.Limit(limit.PerSecond), limit.Burst)
		}
		found = append(found, l.buckets[key])
	}
	if c.Target != "" {
		limit, limited := l.limits.TargetCalls[c.Class]
		add(limit, limited, bucketKey{target: c.Target, class: c.Class})
	}
	limit, limited := l.limits.Calls[c.Class]
	add(limit, limited, bucketKey{class: c.Class})
	return found
}

// room returns the number of calls of a class that can be made without waiting: 0 during a pause
// after throttling, and MaxInt32 if there is no limit.
func (l *Limiter) room(class Class) int {
	if l.refusal() != nil {
		return 0
	}
	room := math.MaxInt32
	for _, bucket := range l.bucketsOf(Call{Class: class}) {
		room = max(0, int(bucket.Tokens()))
	}
	return room
}

// waitFor takes a token from a bucket. It fails immediately if ctx ends before the token is due.
func waitFor(ctx context.Context, bucket *rate.Limiter, c Call) error {
	token := bucket.Reserve()
	delay := token.Delay()
	if delay == 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		token.Cancel()
		return &targets.ThrottledError{
			RetryAfter: delay.Round(time.Millisecond),
			Err:        fmt.Errorf("%s would exceed hpad's own limit of %g calls of class %s per second for the account", c.Operation, float64(bucket.Limit()), c.Class),
		}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		token.Cancel()
		return ctx.Err()
	}
}
