package nomad

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestThrottledWaits: without being asked for a wait hpad is back after a second, then
// two, and so on, never after more than longestThrottledWait.
func TestThrottledWaits(t *testing.T) {
	refused := &targets.ThrottledError{Err: errors.New("too many")}
	var b backoff
	now := time.Now()
	for n, longest := range []time.Duration{1, 2, 4, 8, 16, 20, 20} {
		longest *= time.Second
		b.note(scope{}, refused, now)
		b.note(scope{}, refused, now.Add(longest/10)) // of a call of the same time
		b.note(scope{}, nil, now.Add(longest/10))     // of one that began before
		err := b.waiting(scope{}, "", now)
		throttled, ok := errors.AsType[*targets.ThrottledError](err)
		if !ok || throttled.RetryAfter < longest/2 || throttled.RetryAfter > longest {
			t.Fatalf("wait %d: %v, want from %v to %v", n+1, err, longest/2, longest)
		}
		now = now.Add(longest)
		if err := b.waiting(scope{}, "", now); err != nil {
			t.Fatalf("after wait %d: %v", n+1, err)
		}
	}
	b.note(scope{}, nil, now)
	b.note(scope{}, refused, now)
	if err := b.waiting(scope{}, "", now.Add(firstThrottledWait)); err != nil {
		t.Errorf("after an answer the first wait is longer than %v: %v", firstThrottledWait, err)
	}
}

// TestRetryAfter: a proxy that asks for a wait gets it, in seconds or as a time, for
// reads and for writes.
func TestRetryAfter(t *testing.T) {
	for name, text := range map[string]func() string{
		"seconds": func() string { return "40" },
		"time":    func() string { return time.Now().Add(41 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(name+" "+method, func(t *testing.T) {
				i := newImitation(t)
				i.add("web", 1)
				var asked atomic.Int32
				f := openFleet(t, testConfig(t, newHandler(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method != method {
						i.ServeHTTP(w, r)
						return
					}
					asked.Add(1)
					w.Header().Set("Retry-After", text())
					http.Error(w, "slow down", http.StatusTooManyRequests)
				})), nil)
				call := func() error {
					if method == http.MethodPut {
						return f.SetReplicas(t.Context(), ref("web/app"), 2, "", "test")
					}
					readings, err := f.Snapshot(t.Context(), []targets.Ref{ref("web/app")})
					return errors.Join(err, readings[ref("web/app")].Err)
				}
				err := call()
				throttled, ok := errors.AsType[*targets.ThrottledError](err)
				if !ok || throttled.RetryAfter < 30*time.Second || throttled.RetryAfter > 41*time.Second || !strings.Contains(err.Error(), "nomad answers 429: slow down") {
					t.Errorf("a call that is refused = %v, want a wait of 40 s", err)
				}
				before := asked.Load()
				if err := call(); !errors.Is(err, targets.ErrThrottled) || asked.Load() != before {
					t.Errorf("the next call = %v, and Nomad was asked %d times more, want that it is left alone", err, asked.Load()-before)
				}
			})
		}
	}
}
