package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

func TestStop(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	w.load("queue_length", 30)
	w.start(setup{})
	grown := w.awaitCount(3)
	w.awaitWorkers(3)
	for _, args := range [][]string{{"logs", "worker-1"}, {"logs", "worker", "worker-1", "-n", "1"}, {"logs", "worker"}} {
		if output, code := w.CLI(args...); code != 0 || !strings.Contains(output, "serving as worker-1-") {
			t.Errorf("hpad %q: exit code %d, output %q", args, code, output)
		}
	}
	w.Stop()
	w.awaitNoProcesses()
	if _, err := os.Stat(w.Socket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket still exists: %v", err)
	}
	if conn, err := net.Dial("tcp", w.listen); err == nil {
		_ = conn.Close()
		t.Errorf("a process listens on %s", w.listen)
	}
	output, code := w.CLI("get")
	if code != 1 || !strings.Contains(output, w.Socket()) || !strings.Contains(output, "hpad: hint: ") {
		t.Errorf("hpad get without a daemon: exit code %d, output %q", code, output)
	}

	w.Start()
	w.awaitWorkers(3)
	if again := w.View("worker"); !again.Status.LastScaleTime.Equal(grown.Status.LastScaleTime) {
		t.Errorf("last scale time = %s after the restart, want %s", again.Status.LastScaleTime, grown.Status.LastScaleTime)
	}
	w.Stop()
	w.awaitNoProcesses()
}

// TestWorkersSurvive checks that a service's workers outlive a restart and a SIGKILL of hpad, and
// that they end when their fleet was removed from the configuration in the meantime.
func TestWorkersSurvive(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{Environment: []string{"NOTIFY_SOCKET=" + newManager(t).path}})
	w.load("queue_length", 30)
	w.start(setup{})
	w.awaitCount(3)
	before := w.awaitWorkers(3)
	for _, end := range []func(){w.Stop, w.Kill} {
		end()
		if got := w.workers(); !maps.Equal(got, before) {
			t.Errorf("got workers %v after the end of hpad, want %v", got, before)
		}
		w.Start()
		w.Passes("worker", 2)
		if got := w.workers(); !maps.Equal(got, before) {
			t.Errorf("got workers %v after the start of hpad, want %v", got, before)
		}
	}
	w.Stop()
	w.Configure("")
	w.Launch()
	eventually(t, "the workers of the removed fleet have ended", func() (string, bool) {
		left := w.workers()
		return fmt.Sprint(left), len(left) == 0
	})
	w.Stop()
	w.awaitNoProcesses()
}

// TestSecond checks that a second hpad with the state directory of a running hpad exits with an
// error, and does not affect the first one.
func TestSecond(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	w.start(setup{})
	before := w.awaitWorkers(1)

	second := newFixture(t, program.Options{State: w.State()})
	second.Configure(setup{}.toml(second))
	second.Launch()
	eventually(t, "the second hpad has opened the state", func() (string, bool) {
		return "", second.hasOpen(filepath.Join(w.State(), "state.db"))
	})
	second.Signal(syscall.SIGHUP) // must be ignored during startup
	second.awaitExit("exit status 1")
	want := fmt.Sprintf("state directory %q is in use by another hpad", w.State())
	if logged := second.Said(); !strings.Contains(logged, want) {
		t.Errorf("the second hpad logged %q, want %q", logged, want)
	}
	second.awaitNoProcesses()

	w.Passes("worker", 1)
	if after := w.awaitWorkers(1); !maps.Equal(after, before) {
		t.Errorf("got workers %v, want %v", after, before)
	}
	w.Stop()
	w.awaitNoProcesses()
}

// hasOpen reports whether hpad has opened the file or has exited.
func (w *fixture) hasOpen(path string) bool {
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", w.Pid()))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.Ended() != "" || slices.ContainsFunc(descriptors, func(descriptor string) bool {
		file, err := os.Readlink(descriptor)
		return err == nil && file == path
	})
}
