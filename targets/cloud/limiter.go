package cloud

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
)

// How long a fleet leaves its platform alone after a refusal for too many calls: the
// first wait, doubled with each further refusal, up to the longest, less up to half
// of it at random. It is longer where the platform asks for that, up to the longest
// that is believed.
const (
	firstWait    = time.Second
	longestWait  = 20 * time.Second
	believedWait = time.Hour
)

// Class is a kind of calls that the platform counts together.
type Class string

// The classes that every platform tells apart. A kind may have others.
const (
	Read  Class = "read"
	Write Class = "write"
)

// Limit is a token bucket.
type Limit struct {
	// PerSecond is how many calls a second are made in the long run: more than 0.
	PerSecond float64
	// Burst is how many are made at once after a pause: at least 1.
	Burst int
}

// Limits are those of a fleet's calls.
type Limits struct {
	// Calls are the limits of all calls of a class; one that is not listed is not
	// limited.
	Calls map[Class]Limit
	// TargetCalls are those of the calls for one target, besides.
	TargetCalls map[Class]Limit
}

// Call is one call to the platform.
type Call struct {
	// Operation is its name as the platform has it, for metrics.
	Operation string
	Class     Class
	// Target is the target it is for, where the platform counts that; empty for a
	// call that is for many.
	Target string
}

// Limiter keeps all calls of a fleet within limits, and makes none for a while
// after the platform refused one as too many. It is safe for concurrent use.
type Limiter struct {
	limits Limits
	meter  targets.Meter
	shared map[Class]*rate.Limiter

	mu      sync.Mutex
	own     map[targetClass]*rate.Limiter
	sweepAt int
	refused error
	wait    time.Duration
	until   time.Time
}

type targetClass struct {
	target string
	class  Class
}

// smallestSweep is how many buckets of targets there are before those that nobody
// uses are dropped.
const smallestSweep = 1024

// NewLimiter answers a limiter with full buckets. A nil meter counts nothing.
func NewLimiter(limits Limits, meter targets.Meter) *Limiter {
	l := &Limiter{limits: limits, meter: meter, shared: map[Class]*rate.Limiter{}, own: map[targetClass]*rate.Limiter{}, sweepAt: smallestSweep}
	for class, limit := range limits.Calls {
		l.shared[class] = limit.bucket()
	}
	return l
}

func (l Limit) bucket() *rate.Limiter { return rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst) }

// Do makes a call: it waits until the limits allow it, and counts the wait and the
// call. It answers a [targets.ThrottledError] without a call while the platform
// wants to be left alone, and where the limits do not allow the call before ctx
// ends; the context's error when it ends while waiting; else what call answers, of
// which an ErrThrottled makes the platform left alone from then on.
func (l *Limiter) Do(ctx context.Context, c Call, call func(ctx context.Context) error) error {
	if err := l.admit(ctx, c); err != nil {
		return err
	}
	begun := time.Now()
	err := call(ctx)
	now := time.Now()
	if l.meter != nil {
		l.meter.Call(c.Operation, now.Sub(begun), err)
	}
	l.note(err, begun, now)
	return err
}

// Refusal answers the error that any call would get now because the platform wants
// to be left alone; nil when calls may be made.
func (l *Limiter) Refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal(time.Now())
}

func (l *Limiter) refusal(now time.Time) error {
	if !now.Before(l.until) {
		return nil
	}
	return &targets.ThrottledError{
		RetryAfter: l.until.Sub(now).Round(time.Millisecond),
		Err:        fmt.Errorf("waiting after: %w", l.refused),
	}
}

// admit waits until a call may be made.
func (l *Limiter) admit(ctx context.Context, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.Refusal(); err != nil {
		return err
	}
	begun := time.Now()
	for _, bucket := range l.buckets(c) {
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

// Room answers how many calls of a class could be made at once now: none while the
// platform wants to be left alone, and no more than MaxInt32 where the class has no
// limit.
func (l *Limiter) Room(class Class) int {
	if l.Refusal() != nil {
		return 0
	}
	bucket := l.shared[class]
	if bucket == nil {
		return math.MaxInt32
	}
	return max(0, int(bucket.Tokens()))
}

// buckets answers those of a call.
func (l *Limiter) buckets(c Call) []*rate.Limiter {
	var found []*rate.Limiter
	if limit, ok := l.limits.TargetCalls[c.Class]; ok && c.Target != "" {
		found = append(found, l.targetBucket(targetClass{target: c.Target, class: c.Class}, limit))
	}
	if bucket := l.shared[c.Class]; bucket != nil {
		found = append(found, bucket)
	}
	return found
}

func (l *Limiter) targetBucket(key targetClass, limit Limit) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.own[key]
	if bucket == nil {
		if len(l.own) >= l.sweepAt {
			for key, idle := range l.own {
				if idle.Tokens() >= float64(idle.Burst()) { // a new one would be the same
					delete(l.own, key)
				}
			}
			l.sweepAt = max(smallestSweep, 2*len(l.own))
		}
		bucket = limit.bucket()
		l.own[key] = bucket
	}
	return bucket
}

// waitFor takes a token from a bucket. Where there is none before ctx ends it
// answers so at once.
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
			Err:        fmt.Errorf("%s waits for the fleet's own limit of %g calls of class %s a second", c.Operation, float64(bucket.Limit()), c.Class),
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

// note remembers what a call answered that began then.
func (l *Limiter) note(err error, begun, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	throttled, ok := errors.AsType[*targets.ThrottledError](err)
	if !ok {
		if err == nil && !begun.Before(l.until) {
			l.refused, l.wait, l.until = nil, 0, time.Time{}
		}
		return
	}
	wait := min(throttled.RetryAfter, believedWait)
	if !now.Before(l.until) { // else it is one of several calls of the same time
		l.wait = min(max(firstWait, 2*l.wait), longestWait)
		wait = max(wait, l.wait-time.Duration(rand.Float64()*float64(l.wait)/2))
	}
	l.refused = throttled.Err
	if until := now.Add(wait); until.After(l.until) {
		l.until = until
	}
}
