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

// Saved returns a limit of calls per second, with a burst of the calls of some seconds.
func Saved(perSecond, seconds float64) Limit {
	return Limit{PerSecond: perSecond, Burst: max(1, int(perSecond*seconds))}
}

// Limits are the limits of the calls of a fleet.
type Limits struct {
	// Calls are the limits by class; other classes have no limit.
	Calls map[Class]Limit
	// TargetCalls are additional limits of the calls for one target.
	TargetCalls map[Class]Limit
}

// Call is one call to the platform.
type Call struct {
	// Operation is the platform's name of the call, for metrics.
	Operation string
	Class     Class
	// Target is set if the platform limits the calls for one target.
	Target string
}

// Limiter keeps the calls of a fleet to one account within limits, and pauses after the platform
// throttled a call. Make one with [NewLimiter]. It is safe for concurrent use.
type Limiter struct {
	// Timeout limits each call; 0 is no limit. Errors classifies its error; may be nil. They are
	// set before the first call.
	Timeout time.Duration
	Errors  *Errors

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

// NewLimiter returns a limiter with full buckets. Meter may be nil.
func NewLimiter(limits Limits, meter targets.Meter) *Limiter {
	return &Limiter{limits: limits, meter: meter, buckets: map[bucketKey]*rate.Limiter{}}
}

// Do makes a call when the limits allow it, and counts the wait and the call. It returns a
// [targets.ThrottledError] without a call during a pause after throttling, and if the limits do
// not allow the call before ctx ends. An ErrThrottled starts a pause.
func (l *Limiter) Do(ctx context.Context, c Call, call func(ctx context.Context) error) error {
	if err := l.admit(ctx, c); err != nil {
		return err
	}
	begun := time.Now()
	err := l.bounded(ctx, c.Class, call)
	now := time.Now()
	if l.meter != nil {
		l.meter.Call(c.Operation, now.Sub(begun), err)
	}
	l.backoff.Record(err, begun, now)
	return err
}

func (l *Limiter) bounded(ctx context.Context, class Class, call func(ctx context.Context) error) error {
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = targets.Bounded(ctx, l.Timeout)
		defer cancel()
	}
	return l.Errors.Classify(ctx, class, call(ctx))
}

// Refusal returns the error of any call during a pause after throttling, or nil.
func (l *Limiter) Refusal() error {
	return l.backoff.Wait()
}

func (l *Limiter) admit(ctx context.Context, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.Refusal(); err != nil {
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
	return l.Refusal() // which may have come meanwhile
}

// bucketsOf returns the buckets of a call, the target's bucket first.
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

// Room returns the number of calls of a class without a wait: 0 during a pause after throttling,
// and MaxInt32 without a limit.
func (l *Limiter) Room(class Class) int {
	if l.Refusal() != nil {
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
			Err:        fmt.Errorf("%s waits for hpad's own limit of %g calls of class %s a second to the account", c.Operation, float64(bucket.Limit()), c.Class),
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
