package api_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
)

// TestProfiles checks that Go's tools can read the profiles, and that only clients that may write
// get them.
func TestProfiles(t *testing.T) {
	anonymous := func(*http.Request) (string, error) { return "", errors.New("and the client is not authenticated") }
	const gzip = "\x1f\x8b"
	for _, test := range []struct {
		path   string
		access api.Access
		status int
		want   string
	}{
		{"/debug/pprof/heap", api.Full, http.StatusOK, gzip},
		{"/debug/pprof/profile?seconds=1", api.Full, http.StatusOK, gzip},
		{"/debug/pprof/trace?seconds=1", api.Full, http.StatusOK, "go 1."},
		{"/debug/pprof/disk", api.Full, http.StatusNotFound, "no such profile: disk"},
		{"/debug/pprof/heap", api.ReadOnly, http.StatusForbidden, "/debug/pprof/heap is a profile, which this listener does not accept: use the unix socket"},
		{"/debug/pprof/profile?seconds=1", anonymous, http.StatusForbidden, "is a profile, and the client is not authenticated"},
	} {
		response := send(t, twoAutoscalers(), test.access, httptest.NewRequest(http.MethodGet, test.path, nil))
		if body := response.Body.Bytes(); response.Code != test.status || !bytes.Contains(body, []byte(test.want)) {
			t.Errorf("%s: got status %d with %d bytes, want %d and %q", test.path, response.Code, len(body), test.status, strings.ToValidUTF8(test.want, ""))
		}
	}
}
