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
