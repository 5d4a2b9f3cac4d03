package cloud

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/hpad/hpad/targets"
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

// Limits are those of the calls to an account.
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
	// call that is for many. Fleets of one account give a target the same name.
	Target string
}

// Limiter keeps the calls of a fleet within the limits of its account, and makes none
// for a while after the platform refused one of that account as too many. Make one
// with [Accounts.Limiter]. It is safe for concurrent use.
type Limiter struct {
	accounts *Accounts
	caller   string
	limits   Limits
	meter    targets.Meter
	account  atomic.Pointer[account]
}

// CountWith tells the account that the platform counts the fleet's calls with, and so
// those of all fleets of the same caller. What they spent so far counts too. It may be
// told again, and be another one than before.
func (l *Limiter) CountWith(account string) { l.accounts.countWith(l, account) }

// Close ends the fleet's part in its account. Calls that are still made count
// nevertheless.
func (l *Limiter) Close() { l.accounts.close(l) }

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
	l.account.Load().note(err, begun, now)
	return err
}

// Refusal answers the error that any call would get now because the platform wants
// to be left alone; nil when calls may be made.
func (l *Limiter) Refusal() error { return l.account.Load().refusal(time.Now()) }

// admit waits until a call may be made.
func (l *Limiter) admit(ctx context.Context, c Call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.Refusal(); err != nil {
		return err
	}
	begun := time.Now()
	for _, bucket := range l.account.Load().buckets(c) {
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
	bucket := l.account.Load().bucket(class)
	if bucket == nil {
		return math.MaxInt32
	}
	return max(0, int(bucket.Tokens()))
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
