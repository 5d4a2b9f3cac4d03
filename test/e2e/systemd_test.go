package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manager imitates the notification socket of systemd.
type manager struct {
	t    testing.TB
	path string

	mu   sync.Mutex
	sent []message
}

type message struct {
	words []string
	at    time.Time
}

func newManager(w *world) *manager {
	w.t.Helper()
	m := &manager{t: w.t, path: w.path("notify")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	if err != nil {
		w.t.Fatal(err)
	}
	listening := make(chan struct{})
	w.t.Cleanup(func() {
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
			m.sent = append(m.sent, message{strings.Split(string(buffer[:n]), "\n"), time.Now()})
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

// await waits for a message after the first `after` messages that has a line with the prefix,
// and returns the number of messages up to and including it.
func (m *manager) await(after int, word string) int {
	m.t.Helper()
	found := 0
	eventually(m.t, "the service manager hears "+word, 15*time.Second, func() (string, bool) {
		all := m.all()
		for i := after; i < len(all); i++ {
			if slices.ContainsFunc(all[i].words, func(each string) bool { return strings.HasPrefix(each, word) }) {
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
	eventually(m.t, "the service manager sees "+want, 20*time.Second, func() (string, bool) {
		newest := ""
		for _, each := range m.all() {
			for _, word := range each.words {
				if strings.HasPrefix(word, "STATUS=") {
					newest = word
				}
			}
		}
		return newest, newest == want
	})
}

// TestNotify checks the messages that hpad sends to systemd from start to stop.
func TestNotify(t *testing.T) {
	t.Parallel()
	const watchdog = 2 * time.Second
	w := newWorld(t)
	m := newManager(w)
	w.configure(setup{})
	h := w.launch([]string{"NOTIFY_SOCKET=" + m.path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())})
	n := m.await(0, "READY=1")
	if words := m.all()[n-1].words; !slices.Contains(words, "STATUS=1 autoscaler, 0 failing") {
		t.Errorf("with READY=1 it says %q, want its status", words)
	}
	eventually(t, "each scrape has succeeded", 20*time.Second, func() (string, bool) {
		_, body, err := h.request(http.MethodGet, "/-/ready")
		return body, err == nil && !strings.Contains(body, "problems")
	})
	w.awaitWorkers(1)
	w.doesNotKnow("NOTIFY_SOCKET", "WATCHDOG_USEC")

	m.awaitStatus("STATUS=1 autoscaler, 0 failing")
	n = len(m.all())

	h.signal(syscall.SIGHUP)
	n = m.await(n, "RELOADING=1")
	if words := m.all()[n-1].words; !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "MONOTONIC_USEC=") }) {
		t.Errorf("with RELOADING=1 it says %q, want MONOTONIC_USEC as well", words)
	}
	n = m.await(n, "READY=1")
	if err := os.Remove(w.control + "/queue_length"); err != nil {
		t.Fatal(err)
	}
	m.awaitStatus("STATUS=1 autoscaler, 1 failing")
	h.signal(syscall.SIGTERM)
	n = m.await(n, "STOPPING=1")
	h.ended(0)
	for _, late := range m.all()[n:] {
		if slices.Contains(late.words, "READY=1") {
			t.Errorf("after STOPPING=1 it says %q", late.words)
		}
	}
	m.wantFed(watchdog)
	w.noneLeft()
}

// wantPings checks the watchdog messages.
func (m *manager) wantFed(watchdog time.Duration) {
	m.t.Helper()
	var last time.Time
	count := 0
	for _, each := range m.all() {
		if !slices.Contains(each.words, "WATCHDOG=1") {
			continue
		}
		if gap := each.at.Sub(last); count > 0 && gap > watchdog {
			m.t.Errorf("the watchdog was left alone for %s, it barks after %s", gap, watchdog)
		}
		last = each.at
		count++
	}
	if count < 3 {
		m.t.Errorf("the watchdog was fed %d times, want at least 3", count)
	}
}

// wantUnset checks that workers do not inherit these environment variables.
func (w *world) doesNotKnow(names ...string) {
	w.t.Helper()
	for _, pid := range w.workers() {
		environment, err := os.ReadFile("/proc/" + pid + "/environ")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, name := range names {
			if strings.Contains("\x00"+string(environment), "\x00"+name+"=") {
				w.t.Errorf("worker %s knows %s", pid, name)
			}
		}
	}
}
