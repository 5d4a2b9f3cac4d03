package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoResponse checks that a call ends at its time limit if the server never completes its
// response, or earlier if the caller's context ends.
func TestNoResponse(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		limit        time.Duration
		want         error
	}{
		{"no response", "", time.Hour, errNoResponse},
		{"half a response", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", time.Hour, errNoResponse},
		{"a caller with a shorter limit", "", time.Second, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewClient("/run/hpad.sock")
				c.http.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						_, _ = http.ReadRequest(bufio.NewReader(theirs))
						if test.answer != "" {
							_, _ = io.WriteString(theirs, test.answer)
						}
						_, _ = io.Copy(io.Discard, theirs)
					}()
					return ours, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				begun := time.Now()
				_, err := c.Autoscalers(ctx)
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				if took, want := time.Since(begun), min(test.limit, readResponseTimeout); took != want {
					t.Errorf("the call took %s, want %s", took, want)
				}
				failed, reached := errors.AsType[*ReachError](err)
				if errors.Is(test.want, errNoResponse) && (!reached || failed.Hint == "") {
					t.Errorf("error %#v, want a ReachError with a hint", err)
				}
			})
		})
	}
}

// TestTimeoutOf checks that only writes and expensive checks have a long time limit.
func TestTimeoutOf(t *testing.T) {
	for call, want := range map[[2]string]time.Duration{
		{http.MethodGet, "/api/v1/autoscalers?brief=true"}:              readResponseTimeout,
		{http.MethodGet, "/api/v1/cluster"}:                             readResponseTimeout,
		{http.MethodGet, "/api/v1/autoscalers/verify%2Fx"}:              readResponseTimeout,
		{http.MethodGet, "/api/v1/autoscalers/web/history/verify?to=1"}: responseTimeout,
		{http.MethodGet, "/api/v1/status/reload"}:                       responseTimeout,
		{http.MethodPost, "/api/v1/autoscalers/web/scale"}:              responseTimeout,
	} {
		if got := timeoutOf(call[0], call[1]); got != want {
			t.Errorf("time limit of %s %s = %s, want %s", call[0], call[1], got, want)
		}
	}
}
