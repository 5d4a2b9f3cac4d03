package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/soak"
)

// wantLossReported checks that the log from byte offset since, /-/ready, the CLI and /metrics
// report that part of the state was lost.
func (h *hpad) wantLossTold(since int, part string, texts ...string) {
	h.w.t.Helper()
	_, ready, err := h.request(http.MethodGet, "/-/ready")
	if err != nil {
		h.w.t.Fatal(err)
	}
	described := h.w.hpad("describe", "worker").out
	said := h.said()[since:]
	for _, text := range append(texts, "shown until") {
		if !strings.Contains(ready, text) || !strings.Contains(ready, `"subject":"state"`) || !strings.Contains(ready, `"ready":true`) {
			h.w.t.Errorf("/-/ready does not tell %q: %s", text, ready)
		}
		if !strings.Contains(described, text) {
			h.w.t.Errorf("hpad describe does not tell %q: %s", text, described)
		}
	}
	for _, text := range append(texts, `"msg":"state lost`) {
		if !strings.Contains(said, text) {
			h.w.t.Errorf("the log does not tell %q: %s", text, said)
		}
	}
	eventually(h.w.t, "hpad get tells of it, once the worker is scraped", 10*time.Second, func() (string, bool) {
		got := h.w.hpad("get")
		return got.out, strings.Contains(got.out, "PROBLEM") && strings.Contains(got.out, "state at 2")
	})
	if metrics := h.metrics(); !strings.Contains(metrics, fmt.Sprintf("hpad_state_lost{part=%q} 1\n", part)) {
		h.w.t.Errorf("/metrics does not tell that the part %s was lost:\n%s", part, metrics)
	}
}

// TestStateRemoved removes the state directory of a running hpad, which must write it again.
func TestStateRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	w.load("queue_length", 30)
	h := w.start()
	grown := h.awaitCount(3, 20*time.Second)
	w.awaitWorkers(3)
	dir := w.path("state")

	// hpad checks the directory once per round, which is one second here.
	writtenAnew := func() {
		t.Helper()
		eventually(t, "the state is written anew", 10*time.Second, func() (string, bool) {
			_, state := os.Stat(filepath.Join(dir, "state.db"))
			_, history := os.Stat(filepath.Join(dir, "history.db"))
			err := errors.Join(state, history)
			return fmt.Sprint(err), err == nil
		})
	}
	for n := range soak.Rounds(3, 50) {
		w.load("queue_length", 40-n%2*10)
		writtenAnew()
		if err := os.Rename(dir, w.path(fmt.Sprint("removed-", rand.Text()))); err != nil {
			t.Fatal(err)
		}
	}
	writtenAnew()
	w.load("queue_length", 50)
	h.awaitCount(5, 20*time.Second)
	w.load("queue_length", 30)
	grown = h.awaitCount(3, 20*time.Second)
	eventually(t, "it is told", 20*time.Second, func() (string, bool) {
		_, ready, err := h.request(http.MethodGet, "/-/ready")
		return fmt.Sprint(ready, err), err == nil && strings.Contains(ready, "removed or replaced while hpad ran") &&
			!strings.Contains(ready, "cannot be written")
	})
	h.wantLossTold(0, "directory", dir)
	h.kill()
	w.noneLeft()

	since := len(h.said())
	h = w.start()
	w.awaitWorkers(3)
	if again := h.view(); !again.Status.LastScaleTime.Equal(grown.Status.LastScaleTime) || !again.Created.Equal(grown.Created) {
		t.Errorf("last scaled %s and created %s after the start, before %s and %s",
			again.Status.LastScaleTime, again.Created, grown.Status.LastScaleTime, grown.Created)
	}
	w.wantSaid([]string{"history", "worker"}, "3")
	h.wantLossTold(since, "directory", dir)
	h.end()
	w.noneLeft()
}
