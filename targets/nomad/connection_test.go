package nomad

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/test/wait"
)

// TestShortErrors: an error names the address without the path and query, which may
// be long.
func TestShortErrors(t *testing.T) {
	f := openFleet(t, testConfig(t, "http://127.0.0.1:1"), nil)
	_, err := f.Snapshot(t.Context(), []targets.Ref{ref("web/app")})
	if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "http://127.0.0.1:1/v1/") || strings.Contains(err.Error(), "filter") {
		t.Errorf("Snapshot() = %v, want a refused connection to a path without its query", err)
	}
}

// TestFilesChange: a password file that changes counts at the next round; where
// what it stands for cannot be had, the old one goes on, and that is reported.
func TestFilesChange(t *testing.T) {
	i := newImitation(t)
	i.add("web", 1)
	password := "first"
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "me" || given != password {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		i.ServeHTTP(w, r)
	})
	c := testConfig(t, server)
	c.BasicAuth = &httpclient.BasicAuth{Username: "me", PasswordFile: filepath.Join(t.TempDir(), "password")}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(c.BasicAuth.PasswordFile, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	f := openFleet(t, c, nil)
	readOne(t, f, "web/app")
	password = "another"
	write("another")
	readOne(t, f, "web/app")
	if err := os.Remove(c.BasicAuth.PasswordFile); err != nil {
		t.Fatal(err)
	}
	readOne(t, f, "web/app")
	if problems := f.Problems(); len(problems) != 1 || !strings.Contains(problems[0], c.BasicAuth.PasswordFile) {
		t.Errorf("Problems() = %q, want the file that is gone", problems)
	}
	write("last")
	password = "last"
	readOne(t, f, "web/app")
	if problems := f.Problems(); problems != nil {
		t.Errorf("Problems() = %q once it is back", problems)
	}
}

// TestStale: any server's response is used with stale, but not that of one that
// knows no leader, which may have just restarted and know nothing.
func TestStale(t *testing.T) {
	i := newImitation(t)
	i.add("web", 2)
	var leader atomic.Value
	leader.Store("false")
	server := newHandler(t, func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("stale") {
			t.Errorf("%s asks the leader", r.URL)
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
	if _, err := f.Snapshot(t.Context(), []targets.Ref{ref}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "knows no leader") {
		t.Errorf("Snapshot() = %v of a server without a leader", err)
	}
	leader.Store("true")
	wait.Soon(t, "reading once there is a leader", func() bool {
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		return err == nil && readings[ref].SpecReplicas == 2
	})
}

// TestSocket: an agent can be reached by a socket of the machine.
func TestSocket(t *testing.T) {
	i := newImitation(t)
	i.add("web", 2)
	path := filepath.Join(t.TempDir(), "api.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: i}}
	server.Start()
	t.Cleanup(server.Close)
	if got := readOne(t, openFleet(t, testConfig(t, "unix://"+path), nil), "web/app").SpecReplicas; got != 2 {
		t.Errorf("%d replicas by way of the socket, want 2", got)
	}
}

// TestExplains: a response that does not come within the fleet's own timeout is an error
// of that, one that does not come before the caller's deadline is the caller's, and a
// refusal keeps its words.
func TestExplains(t *testing.T) {
	i := newImitation(t)
	i.add("web", 1)
	c := testConfig(t, i.server.URL)
	c.Timeout = 20 * time.Millisecond
	hasty, patient := openFleet(t, c, nil), newFleet(t, i)
	i.setHang(true)
	refs := []targets.Ref{ref("web/app")}
	if _, err := hasty.Snapshot(t.Context(), refs); !errors.Is(err, targets.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "timeout of 20ms") {
		t.Errorf("Snapshot() without an answer in time = %v, want the fleet's timeout", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := patient.Snapshot(ctx, refs); errors.Is(err, targets.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Snapshot() without an answer before the deadline = %v, want the deadline", err)
	}
}
