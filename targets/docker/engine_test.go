package docker

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/settings/httpclient"
	"github.com/hpad/hpad/targets"
)

// asSSH is the variable that makes the test binary act as "ssh". It connects its input and
// output to the socket with this path, like "docker system dial-stdio" on the remote host.
const asSSH = "HPAD_TEST_SSH_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(asSSH); socket != "" {
		os.Exit(dialStdio(socket))
	}
	os.Exit(m.Run())
}

func dialStdio(socket string) int {
	// Tests use a timeout of 5 seconds or one hour.
	for _, either := range [][]string{{"-o BatchMode=yes"}, {"-o ConnectTimeout=5", "-o ConnectTimeout=3600"}, {"-o ServerAliveInterval=15"}} {
		if !slices.ContainsFunc(os.Args, func(given string) bool { return slices.Contains(either, given) }) {
			fmt.Fprintf(os.Stderr, "ssh has none of the options %q in %q\n", either, os.Args)
			return 255
		}
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "me@192.0.2.1: Permission denied (publickey).")
		return 255
	}
	go func() {
		_, _ = io.Copy(connection, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, connection)
	return 0
}

// fakeEngine is an engine that reports an API version.
type fakeEngine struct {
	mu      sync.Mutex
	version string
	paths   []string
	// answer handles all calls except the ping. If it is nil, the response is 200 with an empty
	// object.
	answer http.HandlerFunc
}

func (i *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	version, answer := i.version, i.answer
	i.paths = append(i.paths, r.URL.Path)
	i.mu.Unlock()
	w.Header().Set("Api-Version", version)
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/_ping") {
		return
	}
	if answer != nil {
		answer(w, r)
		return
	}
	_, _ = io.WriteString(w, "{}")
}

func (i *fakeEngine) requested() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.paths)
}

// answering returns a handler that responds with a status and an error in the engine's format.
func answering(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, message)
	}
}

// serve serves a fake engine over TCP and returns its host.
func serve(t testing.TB, i http.Handler) string {
	t.Helper()
	server := httptest.NewServer(i)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "tcp://" + server.Listener.Addr().String()
}

// serveUnix serves a fake engine on a socket and returns its path.
func serveUnix(t *testing.T, i http.Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: i}}
	server.Start()
	t.Cleanup(server.Close)
	return path
}

func connect(t testing.TB, host string, changes ...func(c *Config)) *Engine {
	t.Helper()
	c := &Config{Host: host, Timeout: 5 * time.Second, ResourceInterval: time.Second}
	for _, change := range changes {
		change(c)
	}
	if errs := c.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	e, err := Connect(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func inspect(e *Engine) error {
	return e.Read(context.Background(), func(ctx context.Context, c *client.Client) error {
		_, err := c.ContainerInspect(ctx, "c1")
		return err
	})
}

func remove(e *Engine) error {
	return e.Write(context.Background(), func(ctx context.Context, c *client.Client) error {
		return c.ContainerRemove(ctx, "c1", container.RemoveOptions{})
	})
}

func TestVersions(t *testing.T) {
	clearEnvironment(t)
	for _, test := range []struct {
		name, engine, fixed string
		want, wantText      string
	}{
		{name: "oldest version", engine: "1.41", want: "/v1.41/containers/c1/json"},
		{name: "intermediate version", engine: "1.47", want: "/v1.47/containers/c1/json"},
		{name: "newer than the client", engine: "1.99", want: "/v1.51/containers/c1/json"},
		{name: "pinned version", engine: "1.51", fixed: "1.44", want: "/v1.44/containers/c1/json"},
		{name: "version too old", engine: "1.40", wantText: "the API version is 1.40, but hpad requires 1.41 (Docker 20.10) or later"},
		{name: "no version", engine: "", wantText: "the response contains no API version; check that this is a Docker engine"},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := &fakeEngine{version: test.engine}
			e := connect(t, serve(t, i), func(c *Config) { c.APIVersion = test.fixed })
			err := inspect(e)
			if test.wantText != "" {
				if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), test.wantText) || !strings.Contains(err.Error(), e.config.Host) {
					t.Errorf("Read() = %v, want ErrTransient that contains %q", err, test.wantText)
				}
				return
			}
			if err != nil {
				t.Fatalf("Read() = %v", err)
			}
			if got := i.requested(); !slices.Equal(got, []string{"/_ping", test.want}) {
				t.Errorf("requests = %q", got)
			}
			if err := inspect(e); err != nil || len(i.requested()) != 3 {
				t.Errorf("second Read() = %v after requests %q, want no second ping", err, i.requested())
			}
		})
	}
}

// sshPath returns a directory in which the test binary is "ssh".
func sshPath(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "ssh")); err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestHosts(t *testing.T) {
	clearEnvironment(t)
	t.Run("unix", func(t *testing.T) {
		if err := inspect(connect(t, "unix://"+serveUnix(t, &fakeEngine{version: "1.41"}))); err != nil {
			t.Errorf("Read() = %v", err)
		}
	})
	t.Run("ssh", func(t *testing.T) {
		t.Setenv("PATH", sshPath(t))
		t.Setenv(asSSH, serveUnix(t, &fakeEngine{version: "1.41"}))
		if err := inspect(connect(t, "ssh://me@192.0.2.1")); err != nil {
			t.Errorf("Read() = %v", err)
		}
	})
	t.Run("ssh with a rejected login", func(t *testing.T) {
		t.Setenv("PATH", sshPath(t))
		t.Setenv(asSSH, "/no/such.sock")
		if err := inspect(connect(t, "ssh://me@192.0.2.1")); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "Permission denied (publickey)") {
			t.Errorf("Read() = %v, want ErrTransient with the output of ssh", err)
		}
	})
	t.Run("ssh without ssh", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		err := inspect(connect(t, "ssh://me@192.0.2.1"))
		if !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), `"ssh": executable file not found`) || !strings.Contains(err.Error(), "install ssh") {
			t.Errorf("Read() = %v, want ErrTransient that names ssh", err)
		}
	})
	t.Run("tls", func(t *testing.T) {
		server := httptest.NewTLSServer(&fakeEngine{version: "1.41"})
		t.Cleanup(server.Close)
		ca := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		host := "tcp://" + server.Listener.Addr().String()
		with := func(settings httpclient.TLS) error {
			return inspect(connect(t, host, func(c *Config) { c.TLS = &settings }))
		}
		if err := with(httpclient.TLS{CAFile: ca}); err != nil {
			t.Errorf("Read() = %v", err)
		}
		if err := with(httpclient.TLS{CAFile: ca, ServerName: "other.example"}); err != nil && !strings.Contains(err.Error(), "other.example") || err == nil {
			t.Errorf("Read() from a server with another name = %v, want an error", err)
		}
		if err := with(httpclient.TLS{}); !errors.Is(err, targets.ErrTransient) || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
			t.Errorf("Read() from a server with an unknown CA = %v, want an error", err)
		}
		if err := with(httpclient.TLS{InsecureSkipVerify: true}); err != nil {
			t.Errorf("Read() without verification = %v", err)
		}
		if err := inspect(connect(t, host)); err == nil {
			t.Error("Read() without TLS returned no error")
		}
	})
	t.Run("tls without a file", func(t *testing.T) {
		_, err := Connect(&Config{Host: "tcp://192.0.2.1:2376", TLS: &httpclient.TLS{CAFile: "/no/such.pem"}}, nil)
		if err == nil || !strings.Contains(err.Error(), `ca_file "/no/such.pem"`) {
			t.Errorf("Connect() = %v, want an error with the file's name", err)
		}
	})
}

func TestErrors(t *testing.T) {
	clearEnvironment(t)
	for _, test := range []struct {
		name   string
		status int
		class  error
		// unknown reports whether the outcome of a write is unknown.
		unknown bool
	}{
		{"not found", http.StatusNotFound, targets.ErrTargetNotFound, false},
		{"conflict", http.StatusConflict, targets.ErrConflict, false},
		{"unauthorized", http.StatusUnauthorized, targets.ErrForbidden, false},
		{"forbidden", http.StatusForbidden, targets.ErrForbidden, false},
		{"too many requests", http.StatusTooManyRequests, targets.ErrThrottled, false},
		{"bad request", http.StatusBadRequest, targets.ErrTransient, false},
		{"unavailable", http.StatusServiceUnavailable, targets.ErrTransient, false},
		{"internal", http.StatusInternalServerError, targets.ErrTransient, true},
		{"bad gateway", http.StatusBadGateway, targets.ErrTransient, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := connect(t, serve(t, &fakeEngine{version: "1.41", answer: answering(test.status, "the engine rejects the call")}))
			for name, err := range map[string]error{"Read": inspect(e), "Write": remove(e)} {
				if !errors.Is(err, test.class) || !strings.Contains(err.Error(), "the engine rejects the call") || !strings.Contains(err.Error(), e.config.Host) {
					t.Errorf("%s() = %v, want %q with the engine's message and its host", name, err, test.class)
				}
				if got := errors.Is(err, targets.ErrUnknownOutcome); got != (test.unknown && name == "Write") {
					t.Errorf("%s() = %v, unknown outcome = %v", name, err, got)
				}
			}
		})
	}
}

func TestWithoutResponse(t *testing.T) {
	clearEnvironment(t)
	t.Run("no engine", func(t *testing.T) {
		e := connect(t, "unix://"+filepath.Join(t.TempDir(), "none.sock"))
		for name, err := range map[string]error{"Read": inspect(e), "Write": remove(e)} {
			if !errors.Is(err, targets.ErrTransient) || errors.Is(err, targets.ErrUnknownOutcome) || !strings.Contains(err.Error(), e.config.Host) {
				t.Errorf("%s() = %v, want ErrTransient with the host and a known outcome", name, err)
			}
		}
	})
	t.Run("connection closed", func(t *testing.T) {
		e := connect(t, serve(t, &fakeEngine{version: "1.41", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }}))
		if err := inspect(e); !errors.Is(err, targets.ErrTransient) {
			t.Errorf("Read() = %v, want ErrTransient", err)
		}
		if err := remove(e); !errors.Is(err, targets.ErrTransient) || !errors.Is(err, targets.ErrUnknownOutcome) {
			t.Errorf("Write() = %v, want ErrTransient and ErrUnknownOutcome", err)
		}
	})
	t.Run("invalid response", func(t *testing.T) {
		e := connect(t, serve(t, &fakeEngine{version: "1.41", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }}))
		if err := inspect(e); !errors.Is(err, targets.ErrTransient) {
			t.Errorf("Read() = %v, want ErrTransient", err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		released := make(chan struct{})
		host := serve(t, &fakeEngine{version: "1.41", answer: func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-released:
			}
		}})
		defer close(released)
		e := connect(t, host, func(c *Config) { c.Timeout = 50 * time.Millisecond })
		if err := inspect(e); !errors.Is(err, targets.ErrTransient) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no response within the fleet's timeout of 50ms") {
			t.Errorf("Read() = %v, want ErrTransient that names the timeout", err)
		}
		if err := remove(e); !errors.Is(err, targets.ErrUnknownOutcome) {
			t.Errorf("Write() = %v, want ErrUnknownOutcome", err)
		}
		// This is long enough to send the call on a busy host.
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := connect(t, host).Write(ctx, func(ctx context.Context, c *client.Client) error {
			return c.ContainerRemove(ctx, "c1", container.RemoveOptions{})
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, targets.ErrUnknownOutcome) {
			t.Errorf("Write() past the caller's deadline = %v, want DeadlineExceeded and ErrUnknownOutcome", err)
		}
	})
}

func TestPermission(t *testing.T) {
	clearEnvironment(t)
	e := connect(t, defaultHost)
	dial := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	if err := e.Error(dial); !errors.Is(err, targets.ErrForbidden) || !strings.Contains(err.Error(), "hpad's user must be in the group that owns the socket, which is usually docker") {
		t.Errorf("Error() = %v, want ErrForbidden that names the group", err)
	}
}
