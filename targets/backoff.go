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

// How long a platform is left alone after it throttled a call: the first wait, doubled
// with each further time, up to the longest, less up to half of it at random, so that
// not all callers come back at once. It is longer where the platform asks for that, up
// to the longest that is believed.
const (
	firstWait    = time.Second
	longestWait  = 20 * time.Second
	believedWait = time.Hour
)

// Backoff keeps calls from a platform that throttles them. The zero value holds none
// back. It is safe for concurrent use.
type Backoff struct {
	mu    sync.Mutex
	cause error
	wait  time.Duration
	until time.Time
}

// RetryAfter returns how long the header of a response asks to wait, in the ways of HTTP
// and of Azure; 0 when it does not say.
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

// Wait returns a [ThrottledError] with the remaining pause; nil if calls may be made.
func (b *Backoff) Wait() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := time.Until(b.until)
	if left <= 0 {
		return nil
	}
	return &ThrottledError{RetryAfter: left.Round(time.Millisecond), Err: fmt.Errorf("waiting after: %w", b.cause)}
}

// Record heeds the error of a call that began at begun and has ended now: an
// [ErrThrottled] begins a wait, and the success of a call that began after a wait ends
// its growth.
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
	if !now.Before(b.until) { // else it is one of several calls of the same time
		b.wait = min(max(firstWait, 2*b.wait), longestWait)
		wait = max(wait, b.wait-time.Duration(rand.Float64()*float64(b.wait)/2))
	}
	b.cause = throttled.Err
	if until := now.Add(wait); until.After(b.until) {
		b.until = until
	}
}
