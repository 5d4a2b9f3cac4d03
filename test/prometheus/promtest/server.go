// Package promtest runs real Prometheus servers for tests.
package promtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
	"github.com/hpad/hpad/test/wait"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Server is a Prometheus server that runs until its test ends. Its methods must be called from the
// test's goroutine.
type Server struct {
	// URL is the base URL. Restart does not change it.
	URL string

	t       testing.TB
	binary  string
	dir     string
	address string
	args    []string
	process *child.Process
}

// Start starts a server with a YAML configuration and additional arguments, and waits until it is
// ready. It uses the program in PATH or the installed one. If there is none, the test is skipped,
// or fails if CI=true.
func Start(t testing.TB, config string, args ...string) *Server {
	t.Helper()
	return StartBinary(t, Binary(t, "prometheus"), config, args...)
}

// StartBinary is like Start, but runs the given binary. A server with the argument --web.config.file
// must use TLS.
func StartBinary(t testing.TB, binary, config string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: binary, dir: t.TempDir(), args: args}
	if err := os.WriteFile(s.path("prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatalf("write configuration of prometheus: %v", err)
	}
	t.Cleanup(s.Stop)
	s.address = ports.Free(t)
	s.URL = "http://" + s.address
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--web.config.file=") }) {
		s.URL = "https://" + s.address
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Binary returns the path of prometheus or promtool: the program in PATH, or the one that
// test/install/prometheus.sh installed.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return installed.Path(t, filepath.Join("bin", name), "test/install/prometheus.sh")
}

// ModuleBinary returns the path of prometheus in the version that hpad's go.mod requires.
// test/install/promserver.sh builds it.
func ModuleBinary(t testing.TB) string {
	t.Helper()
	return moduleBinary(t, "prometheus")
}

// Promtools returns the paths of the installed promtool, which may be years old, and of promtool
// in the version that hpad's go.mod requires.
func Promtools(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"installed": Binary(t, "promtool"), "module": moduleBinary(t, "promtool")}
}

func moduleBinary(t testing.TB, name string) string {
	t.Helper()
	return installed.Path(t, filepath.Join("prometheus-v*", name), "test/install/promserver.sh")
}

// Stop stops the server. Its data is kept.
func (s *Server) Stop() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	err := s.process.Stop(syscall.SIGTERM, stopTimeout)
	s.process = nil
	if err != nil {
		s.t.Errorf("stop prometheus: %v\n%s", err, s.log())
	} else if s.t.Failed() {
		s.t.Logf("prometheus log:\n%s", s.log())
	}
}

// Restart stops and starts the server with the same data and URL.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Load adds samples in OpenMetrics format to the server's data, and restarts the server.
func (s *Server) Load(openMetrics string) {
	s.t.Helper()
	promtool := Binary(s.t, "promtool")
	s.Stop()
	if err := os.WriteFile(s.path("samples.om"), []byte(openMetrics), 0o600); err != nil {
		s.t.Fatalf("write samples for prometheus: %v", err)
	}
	command := exec.CommandContext(s.t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", s.path("samples.om"), s.path("data"))
	if output, err := command.CombinedOutput(); err != nil {
		s.t.Fatalf("load samples into prometheus: %v\n%s", err, output)
	}
	s.Restart()
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }

// start runs the server and waits until it is ready. The error includes the log.
func (s *Server) start() error {
	log, err := os.Create(s.path("log"))
	if err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(s.binary, append([]string{
		"--config.file=" + s.path("prometheus.yml"),
		"--storage.tsdb.path=" + s.path("data"),
		"--storage.tsdb.retention.time=100y", // recorded samples may be old
		"--web.listen-address=" + s.address,
	}, s.args...)...)
	command.Stdout, command.Stderr = log, log
	process, err := child.Start(command)
	if err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	s.process = process
	if err := s.awaitReady(); err != nil {
		s.process = nil
		_ = process.Stop(syscall.SIGTERM, stopTimeout)
		return fmt.Errorf("start prometheus: %w\n%s", err, s.log())
	}
	return nil
}

func (s *Server) awaitReady() error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	ready := false
	state, _ := wait.Until(startTimeout, func() (string, bool) {
		if s.process.Ended() {
			return "the server exited: " + s.process.Command.ProcessState.String(), true
		}
		if response, err := client.Get(s.URL + "/-/ready"); err == nil {
			_ = response.Body.Close()
			// Without credentials, only the log shows that the server is ready.
			ready = response.StatusCode == http.StatusOK ||
				response.StatusCode == http.StatusUnauthorized && bytes.Contains(s.log(), []byte("Server is ready to receive web requests"))
		}
		return "the server is not ready within " + startTimeout.String(), ready
	})
	if !ready {
		return errors.New(state)
	}
	return nil
}

// log returns the end of the server's log.
func (s *Server) log() []byte {
	const most = 8 << 10
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}
