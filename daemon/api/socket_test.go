package api_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/hpad/hpad/daemon/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a handler on a socket until the test ends.
func serve(t *testing.T, socket string, handler http.Handler) {
	t.Helper()
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(handler, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hpad")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "hpad.sock")
}

func TestListenSocketModesAndRemoval(t *testing.T) {
	socket := socketPath(t)
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{socket: 0o660, filepath.Dir(socket): 0o750} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the closed socket still exists: %v", err)
	}
}

// TestCloseKeepsOtherFile checks that Close does not remove a file that replaced the socket.
func TestCloseKeepsOtherFile(t *testing.T) {
	socket := socketPath(t)
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(socket), os.WriteFile(socket, []byte("data"), 0o600), listener.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(socket); err != nil || string(data) != "data" {
		t.Errorf("content of the new file = %q, %v; want it unchanged", data, err)
	}
}

func TestListenSocketReplacesAStaleOne(t *testing.T) {
	socket := socketPath(t)
	leaveStale(t, socket)
	listener, err := api.ListenSocket(socket, "")
	if err != nil {
		t.Fatalf("ListenSocket with a stale socket: %v", err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

// leaveStale leaves a socket without a listener, as a killed hpad does.
func leaveStale(t *testing.T, socket string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestListenSocketRefusesOneInUse(t *testing.T) {
	socket := socketPath(t)
	serve(t, socket, http.NotFoundHandler())
	_, err := api.ListenSocket(socket, "")
	want := fmt.Sprintf("another hpad (process %d) listens on it", os.Getpid())
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), socket) {
		t.Errorf("error = %v, want %q and %q in it", err, socket, want)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket in use was removed: %v", err)
	}
}

// TestClientWaitsForRetryAfter checks that a client waits if Retry-After is short.
func TestClientWaitsForRetryAfter(t *testing.T) {
	for wait, want := range map[string]int{"1": 2, "60": 1, "": 1, "soon": 1} {
		t.Run("Retry-After "+wait, func(t *testing.T) {
			t.Parallel()
			socket := socketPath(t)
			var asked atomic.Int32
			handler := api.NewHandler(twoAutoscalers(), prometheus.NewRegistry(), api.Full)
			serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					handler.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Retry-After", wait)
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = w.Write([]byte(`{"status":"error","errorType":"too_many_requests","error":"too many"}`))
			}))
			list, err := api.NewClient(socket).Autoscalers(t.Context())
			var answered *api.Error
			switch {
			case int(asked.Load()) != want:
				t.Errorf("requests = %d, want %d", asked.Load(), want)
			case want > 1 && (err != nil || len(list) != 2):
				t.Errorf("list = %v, %v; want both autoscalers", list, err)
			case want == 1 && (!errors.As(err, &answered) || answered.Type != api.ErrorTooMany):
				t.Errorf("error = %v, want too_many_requests", err)
			}
		})
	}
}
