package targets

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The limits of the pauses after throttling. The first pause is firstWait; each further
// throttling doubles it, up to longestWait. Up to half of a pause is subtracted at random, so
// that callers do not resume at the same time. If the platform requires a longer pause, that
// pause applies, up to believedWait.
const (
	firstWait    = time.Second
	longestWait  = 20 * time.Second
	believedWait = time.Hour
)

// Backoff pauses the calls to a platform after throttling. The zero value is not paused. It is
// safe for concurrent use.
type Backoff struct {
	mu    sync.Mutex
	cause error
	wait  time.Duration
	until time.Time
}

// RetryAfter returns the pause that response headers require, in the standard format or in Azure's
// format; 0 if they require none.
func RetryAfter(header http.Header) time.Duration {
	for _, name := range []string{"retry-after-ms", "x-ms-retry-after-ms"} {
		if n, err := strconv.Atoi(header.Get(name)); err == nil && n > 0 {
			return time.Duration(n) * time.Millisecond
		}
	}
	text := header.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Wait returns a [ThrottledError] with the remaining pause, or nil if there is no pause. It does
// not block.
func (b *Backoff) Wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := time.Until(b.until)
	if left <= 0 {
		return nil
	}
	return &ThrottledError{RetryAfter: left.Round(time.Millisecond), Err: fmt.Errorf("waiting after: %w", b.cause)}
}

// Record records the result of a call that took place between begun and now. An [ErrThrottled]
// starts a pause. The success of a call that began after a pause resets the pause length.
func (b *Backoff) Record(err error, begun, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	throttled, ok := errors.AsType[*ThrottledError](err)
	if !ok {
		if err == nil && !begun.Before(b.until) {
			b.cause, b.wait, b.until = nil, 0, time.Time{}
		}
		return
	}
	wait := min(throttled.RetryAfter, believedWait)
	if !now.Before(b.until) { // otherwise a concurrent call has already started the pause
		b.wait = min(max(firstWait, 2*b.wait), longestWait)
		wait = max(wait, b.wait-time.Duration(rand.Float64()*float64(b.wait)/2))
	}
	b.cause = throttled.Err
	if until := now.Add(wait); until.After(b.until) {
		b.until = until
	}
}
