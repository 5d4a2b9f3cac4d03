package nomad

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// newHandler serves a handler and returns its address.
func newHandler(t testing.TB, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// waitFor waits until a condition holds, and fails when it does not.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("no %s within 10s", what)
		}
	}
}
