package nomad

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// How long a fleet, or one scope of it, leaves Nomad alone after a refusal: the
// first wait, doubled with each further refusal, up to the longest. After a refusal for
// too many calls it is less up to half of that at random, so that not all fleets come
// back at once, and longer where the answer asks for that, up to the longest that is
// believed.
const (
	firstThrottledWait    = time.Second
	longestThrottledWait  = 20 * time.Second
	believedThrottledWait = time.Hour
	firstForbiddenWait    = 5 * time.Second
	longestForbiddenWait  = time.Minute
)

// backoff remembers refusals and answers them while it waits. The zero backoff
// waits for nothing; it is safe for concurrent use.
type backoff struct {
	mu        sync.Mutex
	throttled refusal
	// forbidden is kept by scope: a token may read one namespace and not another.
	forbidden map[scope]refusal
	// token is the one that was refused: another one is tried at once.
	token string
}

// refusal is one answer that wants to be left alone.
type refusal struct {
	err   error
	wait  time.Duration
	until time.Time
}

// again answers the refusal that follows this one.
func (r refusal) again(err error, first, longest time.Duration, now time.Time) refusal {
	next := refusal{err: err, wait: first}
	if r.err != nil {
		next.wait = min(2*r.wait, longest)
	}
	next.until = now.Add(next.wait)
	return next
}

// waiting answers the error that a call to a scope would get; nil means that it
// may be made.
func (b *backoff) waiting(s scope, token string, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.throttled.until) {
		return &targets.ThrottledError{
			RetryAfter: b.throttled.until.Sub(now).Round(time.Millisecond),
			Err:        fmt.Errorf("waiting after %w", b.throttled.err),
		}
	}
	if b.token != token {
		clear(b.forbidden)
		b.token = token
	}
	if refused := b.forbidden[s]; now.Before(refused.until) {
		return fmt.Errorf("waiting %v after: %w", refused.until.Sub(now).Round(time.Second), refused.err)
	}
	return nil
}

// note remembers what a read of a scope answered.
func (b *backoff) note(s scope, err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var throttled *targets.ThrottledError
	switch {
	case errors.As(err, &throttled):
		if !now.Before(b.throttled.until) { // else it is one of several calls of the same time
			b.throttled = b.throttled.again(throttled.Err, firstThrottledWait, longestThrottledWait, now)
			b.throttled.until = now.Add(b.throttled.wait - time.Duration(rand.Float64()*float64(b.throttled.wait)/2))
		}
		if asked := now.Add(min(throttled.RetryAfter, believedThrottledWait)); asked.After(b.throttled.until) {
			b.throttled.until = asked
		}
	case errors.Is(err, targets.ErrForbidden):
		if b.forbidden == nil {
			b.forbidden = map[scope]refusal{}
		}
		b.forbidden[s] = b.forbidden[s].again(err, firstForbiddenWait, longestForbiddenWait, now)
	case err == nil:
		if !now.Before(b.throttled.until) { // else the call began before the refusal
			b.throttled = refusal{}
		}
		delete(b.forbidden, s)
	}
}
