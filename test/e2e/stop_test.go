package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

func TestStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	w.load("queue_length", 30)
	h := w.start()
	grown := h.awaitCount(3, 20*time.Second)
	w.awaitWorkers(3)
	h.end()
	w.noneLeft()
	if _, err := os.Stat(w.path("sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if conn, err := net.Dial("tcp", w.listen); err == nil {
		_ = conn.Close()
		t.Errorf("somebody listens on %s", w.listen)
	}
	got := w.hpad("get")
	if got.code != 1 || !strings.Contains(got.err, w.path("sock")) || !strings.Contains(got.err, "hpad: hint: ") {
		t.Errorf("hpad get without an hpad ended with %d and said %q", got.code, got.err)
	}

	h = w.start()
	w.awaitWorkers(3)
	if again := h.view(); !again.Status.LastScaleTime.Equal(grown.Status.LastScaleTime) {
		t.Errorf("last scaled %s after the start, before %s", again.Status.LastScaleTime, grown.Status.LastScaleTime)
	}
	h.end()
	w.noneLeft()
}

// TestSecond starts a second hpad with the state directory of a running one.
func TestSecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	h := w.start()
	w.awaitWorkers(1)
	before := w.workers()

	other := newWorld(t)
	other.configure(setup{StateDir: w.path("state")})
	second := other.launch(nil)
	eventually(t, "the second hpad has opened the state", 10*time.Second, func() (string, bool) {
		return "", second.hasOpen(filepath.Join(w.path("state"), "state.db"))
	})
	second.signal(syscall.SIGHUP) // ignored during the start
	second.ended(1)
	want := fmt.Sprintf("state directory %q is in use by another hpad", w.path("state"))
	if said := second.said(); !strings.Contains(said, want) {
		t.Errorf("the second hpad said %q, want %q", said, want)
	}
	other.noneLeft()

	last := h.view().Evaluation.Last
	h.awaitView("the first one goes on", 10*time.Second, func(view api.Autoscaler) bool { return view.Evaluation.Last.After(last) })
	if after := w.workers(); len(after) != 1 || after[w.first] != before[w.first] {
		t.Errorf("the workers of the first one became %v, they were %v", after, before)
	}
	h.end()
	w.noneLeft()
}

// hasOpen reports whether hpad has opened the file or has exited.
func (h *hpad) hasOpen(path string) bool {
	select {
	case <-h.done:
		return true
	default:
	}
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", h.command.Process.Pid))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return slices.ContainsFunc(descriptors, func(descriptor string) bool {
		file, err := os.Readlink(descriptor)
		return err == nil && file == path
	})
}
