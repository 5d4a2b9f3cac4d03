package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/wait"
)

const demoMark = "DEMO_OF_TEST"

func startDemo(t *testing.T, prepare func(*exec.Cmd)) (*exec.Cmd, *transcript) {
	t.Helper()
	cmd := exec.Command("hpad", "demo", "--for", "10m")
	cmd.Env = append(os.Environ(), demoMark+"="+t.Name(), "TMPDIR="+t.TempDir())
	said := new(transcript)
	cmd.Stdout, cmd.Stderr = said, said
	if prepare != nil {
		prepare(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("output of the demo:\n%s", said)
		}
	})
	return cmd, said
}

type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(text)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// demoProcesses returns the command lines of the processes that a test's demo has started.
func demoProcesses(t *testing.T) []string {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		environ, err := os.ReadFile(entry)
		if err != nil {
			continue // the process has ended or belongs to a different user
		}
		if !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+demoMark+"="+t.Name()+"\x00")) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(entry), "cmdline"))
		if err == nil && len(line) > 0 { // zombies have no command line
			found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// hasWorker reports whether a worker is running.
func hasWorker(processes []string) bool {
	return strings.Contains(strings.Join(processes, "\n"), "demo worker --queue")
}

// TestDemoLeavesNothingBehind checks that a demo leaves no processes behind, however it ends.
func TestDemoLeavesNothingBehind(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			t.Parallel()
			cmd, said := startDemo(t, nil)
			wait.Soon(t, "worker that runs", func() bool { return hasWorker(demoProcesses(t)) })
			wait.Soon(t, "row of the table", func() bool { return strings.Contains(said.String(), "/s  ") })
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if signal == syscall.SIGKILL {
				wait.Soon(t, "end of all processes", func() bool { return len(demoProcesses(t)) == 0 })
				return
			}
			if err != nil {
				t.Errorf("the demo exited with %v after the signal, want exit code 0", err)
			}
			if left := demoProcesses(t); len(left) > 0 {
				t.Errorf("remaining processes: %q", left)
			}
			if text := said.String(); !strings.Contains(text, "The demo ran for ") || !strings.Contains(text, "The demo was interrupted before") || strings.Contains(text, "hpad: error") {
				t.Error("the output lacks the summary of an interrupted demo, or contains an error")
			}
			dir := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
				t.Errorf("remaining files: %q, %v", left, err)
			}
		})
	}
}
