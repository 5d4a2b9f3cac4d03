package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/internal/program"
)

// manager simulates systemd's notification socket.
type manager struct {
	t    testing.TB
	path string

	mu   sync.Mutex
	sent []message
}

type message struct{ lines []string }

func newManager(t testing.TB) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(t.TempDir(), "notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	listening := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-listening
	})
	go func() {
		defer close(listening)
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.sent = append(m.sent, message{strings.Split(string(buffer[:n]), "\n")})
			m.mu.Unlock()
		}
	}()
	return m
}

func (m *manager) all() []message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

// await waits for a message, after the first `after` messages, that contains a line with the
// prefix. It returns the number of messages up to and including this one.
func (m *manager) await(after int, prefix string) int {
	m.t.Helper()
	found := 0
	eventually(m.t, "the service manager has received "+prefix, func() (string, bool) {
		all := m.all()
		for i := after; i < len(all); i++ {
			if slices.ContainsFunc(all[i].lines, func(line string) bool { return strings.HasPrefix(line, prefix) }) {
				found = i + 1
				return "", true
			}
		}
		return fmt.Sprint(all), false
	})
	return found
}

// awaitStatus waits until the last STATUS line equals want.
func (m *manager) awaitStatus(want string) {
	m.t.Helper()
	eventually(m.t, "the last status is "+want, func() (string, bool) {
		newest := ""
		for _, each := range m.all() {
			for _, line := range each.lines {
				if strings.HasPrefix(line, "STATUS=") {
					newest = line
				}
			}
		}
		return newest, newest == want
	})
}

// TestNotify checks the messages that hpad sends to systemd from startup to exit.
func TestNotify(t *testing.T) {
	t.Parallel()
	const watchdog = 2 * time.Second
	m := newManager(t)
	w := newFixture(t, program.Options{Environment: []string{"NOTIFY_SOCKET=" + m.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())}})
	w.start(setup{Service: "stop_with_hpad = true"})
	n := m.await(0, "READY=1")
	// The first pass fails without samples. On a slow host it ends before READY=1.
	if lines := m.all()[n-1].lines; len(lines) != 2 || !strings.HasPrefix(lines[1], "STATUS=1 autoscaler, ") {
		t.Errorf("got %q with READY=1, want the status", lines)
	}
	eventually(t, "each scrape has succeeded", func() (string, bool) {
		ready := w.ready()
		return ready, !strings.Contains(ready, "problems")
	})
	w.awaitWorkers(1)
	w.wantUnset("NOTIFY_SOCKET", "WATCHDOG_USEC")

	m.awaitStatus("STATUS=1 autoscaler, 0 failing")
	n = len(m.all())

	w.Signal(syscall.SIGHUP)
	n = m.await(n, "RELOADING=1")
	if lines := m.all()[n-1].lines; !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "MONOTONIC_USEC=") }) {
		t.Errorf("got %q with RELOADING=1, want MONOTONIC_USEC", lines)
	}
	n = m.await(n, "READY=1")
	if err := os.Remove(w.control + "/queue_length"); err != nil {
		t.Fatal(err)
	}
	m.awaitStatus("STATUS=1 autoscaler, 1 failing")
	m.awaitPings(3)
	w.Stop()
	n = m.await(n, "STOPPING=1")
	for _, late := range m.all()[n:] {
		if slices.Contains(late.lines, "READY=1") {
			t.Errorf("got %q after STOPPING=1", late.lines)
		}
	}
	w.awaitNoProcesses()
}

// awaitPings waits for a number of watchdog messages.
func (m *manager) awaitPings(want int) {
	m.t.Helper()
	eventually(m.t, fmt.Sprintf("the service manager has received WATCHDOG=1 %d times", want), func() (string, bool) {
		count := 0
		for _, each := range m.all() {
			if slices.Contains(each.lines, "WATCHDOG=1") {
				count++
			}
		}
		return fmt.Sprintf("%d times", count), count >= want
	})
}

// wantUnset checks that workers do not inherit the given environment variables.
func (w *fixture) wantUnset(names ...string) {
	w.t.Helper()
	for _, pid := range w.workers() {
		environment, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains("\x00"+string(environment), "\x00"+name+"=") {
				w.t.Errorf("worker %s has the variable %s", pid, name)
			}
		}
	}
}
