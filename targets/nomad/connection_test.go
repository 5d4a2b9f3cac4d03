package nomad

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// TestStale checks that with stale = true, hpad rejects a response from a server without contact
// with the leader.
func TestStale(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 2)
	var leader atomic.Value
	leader.Store("false")
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("stale") {
			t.Errorf("%s reads from the leader", r.URL)
		}
		w.Header().Set("X-Nomad-Index", "1")
		w.Header().Set("X-Nomad-LastContact", "0")
		w.Header().Set("X-Nomad-KnownLeader", leader.Load().(string))
		i.ServeHTTP(w, r)
	})
	c := testConfig(t, server)
	c.Stale = true
	f := openFleet(t, c, nil)
	ref := targets.Ref{Fleet: f.base.Name, Name: "web/app"}
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "no contact with the leader") {
		t.Errorf("Snapshot() from a server without a leader = %v, want ErrTransient", err)
	}
	leader.Store("true")
	wait.Soon(t, "reading after the election of a leader", func() bool {
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		return err == nil && readings[ref].SpecReplicas == 2
	})
}

// TestRetryAfter checks that the Retry-After of a proxy is respected in seconds and as a time,
// for reads and for writes.
func TestRetryAfter(t *testing.T) {
	for name, text := range map[string]func() string{
		"seconds": func() string { return "40" },
		"time":    func() string { return time.Now().Add(41 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			t.Run(name+" "+method, func(t *testing.T) {
				i := newFakeServer(t)
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
				if !ok || throttled.RetryAfter < 30*time.Second || throttled.RetryAfter > 41*time.Second || !strings.Contains(err.Error(), "nomad returned 429: slow down") {
					t.Errorf("error of a throttled call = %v, want a pause of 40 s", err)
				}
				before := asked.Load()
				err = call()
				if throttled, ok := errors.AsType[*targets.ThrottledError](err); !ok || throttled.RetryAfter < 30*time.Second || asked.Load() != before {
					t.Errorf("error of the next call = %v after %d requests, want no request for 40 s", err, asked.Load()-before)
				}
			})
		}
	}
}
