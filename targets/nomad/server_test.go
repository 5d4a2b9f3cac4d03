package nomad

import (
	"net/http"
	"net/http/httptest"
	"testing"
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
