package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/wait"
)

// isProfile reports whether Go's tools can read a body.
func isProfile(kind string, body []byte) bool {
	if kind == "trace" {
		return bytes.HasPrefix(body, []byte("go 1."))
	}
	return bytes.HasPrefix(body, []byte{0x1f, 0x8b}) // gzip
}

// TestProfiles checks that every kind of profile is served to clients that may write.
func TestProfiles(t *testing.T) {
	for kind := range api.ProfileSeconds {
		response := ask(t, twoAutoscalers(), api.Full, httptest.NewRequest(http.MethodGet, "/debug/pprof/"+kind+"?seconds=1", nil))
		if response.Code != http.StatusOK || !isProfile(kind, response.Body.Bytes()) {
			t.Errorf("%s: status %d and %d bytes, want a profile", kind, response.Code, response.Body.Len())
		}
	}
}

func TestRefusedProfiles(t *testing.T) {
	anonymous := func(*http.Request) (string, error) { return "", errors.New("and the client did not say who it is") }
	for _, test := range []struct {
		path   string
		access api.Access
		status int
		want   string
	}{
		{"/debug/pprof/heap", api.ReadOnly, http.StatusForbidden, "/debug/pprof/heap is a profile, which this listener does not accept: use the unix socket"},
		{"/debug/pprof/profile?seconds=1", anonymous, http.StatusForbidden, "is a profile, and the client did not say who it is"},
		{"/debug/pprof/mutex", api.Full, http.StatusNotFound, `no profile named "mutex": the profiles are allocs, goroutine, heap, profile, trace`},
		{"/debug/pprof/profile?seconds=0", api.Full, http.StatusBadRequest, "must be from 1 to 120"},
		{"/debug/pprof/trace?seconds=121", api.Full, http.StatusBadRequest, "must be from 1 to 120"},
		{"/debug/pprof/trace?seconds=soon", api.Full, http.StatusBadRequest, "must be from 1 to 120"},
	} {
		response := ask(t, twoAutoscalers(), test.access, httptest.NewRequest(http.MethodGet, test.path, nil))
		if response.Code != test.status || !strings.Contains(open(t, response).Error, test.want) {
			t.Errorf("%s answers %d: %s; want %d and %q", test.path, response.Code, response.Body, test.status, test.want)
		}
	}
}

// TestOneProfileAtATime checks that only one profile is taken at a time, over the socket and TCP
// together, and that it ends if its client disconnects.
func TestOneProfileAtATime(t *testing.T) {
	socket := socketPath(t)
	serve(t, socket, api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full))
	client := api.NewClient(socket)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- client.Profile(ctx, "profile", 60, io.Discard) }()
	wait.Soon(t, "first profile that begins", api.Profiling)
	response := ask(t, twoAutoscalers(), api.Full, httptest.NewRequest(http.MethodGet, "/debug/pprof/heap", nil))
	pause, err := strconv.Atoi(response.Header().Get("Retry-After"))
	if response.Code != http.StatusTooManyRequests || err != nil || pause < 1 || pause > api.MaxProfileSeconds || open(t, response).ErrorType != "too_many_requests" {
		t.Errorf("a second profile over TCP: status %d, Retry-After %q, %s", response.Code, response.Header().Get("Retry-After"), response.Body)
	}
	var second *api.Error
	if err := client.Profile(t.Context(), "trace", 1, io.Discard); !errors.As(err, &second) || second.Type != api.ErrorTooMany {
		t.Errorf("a second profile: %v, want one of too many requests", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first profile ended with %v", err)
	}
	wait.Soon(t, "end of the first profile", func() bool { return !api.Profiling() })
}
