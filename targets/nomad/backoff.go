package nomad

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hpad/hpad/targets"
)

// How long a fleet leaves a scope of Nomad alone that rejects its token: the
// first wait, doubled with each further refusal, up to the longest.
const (
	firstForbiddenWait   = 5 * time.Second
	longestForbiddenWait = time.Minute
)

// backoff keeps calls from Nomad: all after too many, else those to a scope that
// rejects the token. The zero backoff keeps none. It is safe for concurrent use.
type backoff struct {
	throttled targets.Backoff

	mu sync.Mutex
	// forbidden is kept by scope: a token may read one namespace and not another.
	forbidden map[scope]refusal
	// token is the rejected one: another one is tried at once.
	token string
}

// refusal is the error of a rejected token, and how long its scope is left alone.
type refusal struct {
	err   error
	wait  time.Duration
	until time.Time
}

// waiting returns the error of a call to a scope that is not to be made now; nil
// means that it may be made.
func (b *backoff) waiting(s scope, token string, now time.Time) error {
	if left, cause := b.throttled.Left(now); left > 0 {
		return &targets.ThrottledError{RetryAfter: left.Round(time.Millisecond), Err: fmt.Errorf("waiting after %w", cause)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token != token {
		clear(b.forbidden)
		b.token = token
	}
	if last := b.forbidden[s]; now.Before(last.until) {
		return fmt.Errorf("waiting %v after: %w", last.until.Sub(now).Round(time.Second), last.err)
	}
	return nil
}

// record heeds the error of a call to a scope.
func (b *backoff) record(s scope, err error, now time.Time) {
	b.throttled.Record(err, now, now)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, targets.ErrForbidden):
		if b.forbidden == nil {
			b.forbidden = map[scope]refusal{}
		}
		wait := min(max(firstForbiddenWait, 2*b.forbidden[s].wait), longestForbiddenWait)
		b.forbidden[s] = refusal{err: err, wait: wait, until: now.Add(wait)}
	case err == nil:
		delete(b.forbidden, s)
	}
}
