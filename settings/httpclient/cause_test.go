package httpclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestCause checks the causes of failed requests to real servers.
func TestCause(t *testing.T) {
	serve := func(response string, reset bool) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = conn.Write([]byte(response))
				if reset {
					_ = conn.(*net.TCPConn).SetLinger(0)
				}
				_ = conn.Close()
			}
		}()
		return "http://" + listener.Addr().String() + "/?token=hunter2"
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for _, test := range []struct {
		name, url, want string
		ctx             context.Context
		is              error
	}{
		{"closed", serve("", false), "the connection was closed without a response", t.Context(), nil},
		{"reset", serve("", true), "connection reset by peer", t.Context(), syscall.ECONNRESET},
		{"not HTTP", serve("SSH-2.0-OpenSSH_9\r\n", false), `malformed HTTP response "SSH-2.0-OpenSSH_9"`, t.Context(), nil},
		{"refused", "http://127.0.0.1:1/?token=hunter2", "connection refused", t.Context(), syscall.ECONNREFUSED},
		{"late", serve("", false), "timeout", late, context.DeadlineExceeded},
	} {
		request, err := http.NewRequestWithContext(test.ctx, http.MethodGet, test.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, err = new(http.Client).Do(request)
		if got := Cause(err); got.Error() != test.want || test.is != nil && !errors.Is(got, test.is) {
			t.Errorf("%s: Cause(%v) = %v, want %s", test.name, err, got, test.want)
		}
	}
}
