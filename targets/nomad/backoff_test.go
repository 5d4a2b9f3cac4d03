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

// TestForbiddenWaits: a namespace that the token may not read is left alone for 5 s,
// then 10, and so on up to a minute, until it may be read; other namespaces, and
// another token, are not.
func TestForbiddenWaits(t *testing.T) {
	var b backoff
	here, there := scope{namespace: "here"}, scope{namespace: "there"}
	now := time.Now()
	if err := b.waiting(here, "token", now); err != nil {
		t.Fatal(err)
	}
	refused := func(wait time.Duration) {
		t.Helper()
		b.record(here, targets.ErrForbidden, now)
		if err := b.waiting(there, "token", now); err != nil {
			t.Errorf("another namespace waits: %v", err)
		}
		if err := b.waiting(here, "token", now.Add(wait-1)); !errors.Is(err, targets.ErrForbidden) {
			t.Errorf("%v after the refusal: %v, want that it waits", wait-1, err)
		}
		if err := b.waiting(here, "token", now.Add(wait)); err != nil {
			t.Errorf("%v after the refusal: %v", wait, err)
		}
		now = now.Add(wait)
	}
	for _, wait := range []time.Duration{5, 10, 20, 40, 60, 60} {
		refused(wait * time.Second)
	}
	b.record(there, nil, now)
	refused(time.Minute)
	b.record(here, nil, now)
	refused(5 * time.Second)
	b.record(here, targets.ErrForbidden, now)
	if err := b.waiting(here, "another token", now); err != nil {
		t.Errorf("another token waits: %v", err)
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
				err = call()
				if throttled, ok := errors.AsType[*targets.ThrottledError](err); !ok || throttled.RetryAfter < 30*time.Second || asked.Load() != before {
					t.Errorf("the next call = %v, and Nomad was asked %d times more, want that it is left alone for 40 s", err, asked.Load()-before)
				}
			})
		}
	}
}
