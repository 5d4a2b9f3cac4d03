// Package promtest runs real Prometheus servers for tests.
package promtest

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/ports"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
	pollInterval = 20 * time.Millisecond
	// startAttempts is how often a free port may turn out to be taken.
	startAttempts = 3
)

// Server is a Prometheus server that lives as long as its test. Its methods are
// for the test's own goroutine.
type Server struct {
	// URL is where it listens, as "http://127.0.0.1:41234"; it outlives Restart.
	URL string

	t       testing.TB
	binary  string
	dir     string
	address string
	args    []string
	process *child.Process
}

// Start runs Debian's prometheus, or whichever is on the PATH, and returns once it
// is ready. The configuration is Prometheus's own YAML; args are added to its
// command line. Without a binary the test is skipped, and fails where CI=true.
func Start(t testing.TB, config string, args ...string) *Server {
	t.Helper()
	return StartBinary(t, Binary(t, "prometheus"), config, args...)
}

// StartBinary is Start with a binary of the caller's choice.
func StartBinary(t testing.TB, binary, config string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, binary: binary, dir: t.TempDir(), args: args}
	if err := os.WriteFile(s.path("prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatalf("write configuration of prometheus: %v", err)
	}
	t.Cleanup(s.Stop)
	for attempt := 1; ; attempt++ {
		s.address = ports.Free(t)
		s.URL = "http://" + s.address
		err := s.start()
		if err == nil {
			return s
		}
		if attempt == startAttempts || !strings.Contains(err.Error(), "address already in use") {
			t.Fatal(err)
		}
	}
}

// Binary returns the path of prometheus or promtool: on the PATH, or where
// test/install/prometheus.sh puts them. Without it the test is skipped, and fails
// where CI=true.
func Binary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return installed.Path(t, filepath.Join("bin", name), "test/install/prometheus.sh")
}

// ModuleBinary returns the path of a prometheus as new as the modules of hpad,
// which test/install/promserver.sh builds. Without it the test is skipped, and
// fails where CI=true.
func ModuleBinary(t testing.TB) string {
	t.Helper()
	return moduleBinary(t, "prometheus")
}

// Promtools returns the paths of the promtools there are to hold a file against:
// the installed one, which may be some years old, and one as new as the modules of
// hpad. Without one of them the test is skipped, and fails where CI=true.
func Promtools(t testing.TB) map[string]string {
	t.Helper()
	return map[string]string{"installed": Binary(t, "promtool"), "module": moduleBinary(t, "promtool")}
}

func moduleBinary(t testing.TB, name string) string {
	t.Helper()
	return installed.Path(t, filepath.Join("prometheus-v*", name), "test/install/promserver.sh")
}

// Stop ends the server; its data stay for Restart.
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
		s.t.Logf("what prometheus said:\n%s", s.log())
	}
}

// Restart ends the server if it runs, and starts it with the same data at the
// same URL.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		s.t.Fatal(err)
	}
}

// Load adds recorded samples, in OpenMetrics text with timestamps, to the
// server's data. It restarts the server.
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

// start returns once the server is ready, or with what it said.
func (s *Server) start() error {
	log, err := os.Create(s.path("log"))
	if err != nil {
		return fmt.Errorf("start prometheus: %w", err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(s.binary, append([]string{
		"--config.file=" + s.path("prometheus.yml"),
		"--storage.tsdb.path=" + s.path("data"),
		"--storage.tsdb.retention.time=100y", // Recorded samples may be old.
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
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(startTimeout)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		if response, err := client.Get(s.URL + "/-/ready"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.process.Done:
			return fmt.Errorf("it ended: %s", s.process.Command.ProcessState)
		case <-deadline:
			return fmt.Errorf("it was not ready within %s", startTimeout)
		case <-poll.C:
		}
	}
}

// log is the end of what the server printed.
func (s *Server) log() []byte {
	const most = 8 << 10
	text, err := os.ReadFile(s.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-most):])
}
