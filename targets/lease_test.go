package targets

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLease checks that a change is canceled when the lease ends, but not if the lease was renewed.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var end atomic.Pointer[time.Time]
		renew := func(until time.Time) { end.Store(&until) }
		renew(time.Now().Add(time.Second))
		lease := Lease(func() time.Time { return *end.Load() })
		ctx, cancel, err := lease.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer cancel()
		renew(time.Now().Add(2 * time.Second))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Errorf("error of the change after a renewal = %v, want nil", context.Cause(ctx))
		}
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrLeaseEnded) {
			t.Errorf("cause at the end of the lease = %v, want ErrLeaseEnded", cause)
		}
		if _, _, err := lease.Begin(t.Context()); !errors.Is(err, ErrLeaseEnded) || !errors.Is(err, ErrTransient) {
			t.Errorf("Begin() after the lease = %v, want ErrLeaseEnded", err)
		}
	})
	if _, _, err := Lease(nil).Begin(t.Context()); err != nil {
		t.Errorf("Begin() without a lease = %v, want nil", err)
	}
}

// TestLeaseTransport checks that only read requests are sent after the lease, and that a write
// request in progress is canceled when the lease ends.
func TestLeaseTransport(t *testing.T) {
	var changes atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			changes.Add(1)
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	until := time.Now().Add(200 * time.Millisecond)
	client := &http.Client{Transport: Lease(func() time.Time { return until }).Transport(http.DefaultTransport)}
	if _, err := client.Post(server.URL, "", http.NoBody); !errors.Is(err, ErrLeaseEnded) || errors.Is(err, ErrTransient) { //nolint:bodyclose // no response
		t.Errorf("error of a request in progress at the end of the lease = %v, want ErrLeaseEnded without a class", err)
	}
	if _, err := client.Post(server.URL, "", http.NoBody); !errors.Is(err, ErrLeaseEnded) || changes.Load() != 1 { //nolint:bodyclose // no response
		t.Errorf("error of a write after the lease = %v, want ErrLeaseEnded; writes received = %d, want 1", err, changes.Load())
	}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}
