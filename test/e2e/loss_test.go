package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/test/soak"
)

// wantLossTold wants the log since a position, /-/ready, "hpad get", "hpad describe" and
// /metrics to show that a part of the state was lost, with all the texts.
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
	for _, text := range append(texts, `"msg":"state was lost or removed`) {
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

// TestLostState loses the state of 7 workers between a stop and a start: they come up as
// 7, which nobody else knows, and the loss is shown by that start and by the next.
func TestLostState(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(t *testing.T, path string)
		// refused says that hpad does not start at first.
		refused bool
	}{
		{"removed", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"damaged", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("damage"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.configure(setup{})
			w.load("queue_length", 70)
			h := w.start()
			h.awaitCount(7, 20*time.Second)
			w.awaitWorkers(7)
			h.end()
			w.noneLeft()
			path := filepath.Join(w.path("state"), "state.db")
			test.lose(t, path)
			if test.refused {
				h = w.launch(nil)
				h.ended(1)
				if said := h.said(); !strings.Contains(said, "is damaged") {
					t.Errorf("hpad says %q", said)
				}
			}
			before := len(h.said())
			for range 2 {
				since := len(h.said())
				h = w.start()
				w.awaitWorkers(7)
				h.wantLossTold(since, "memory", path, "was lost")
				h.end()
				w.noneLeft()
			}
			if said := h.said()[before:]; strings.Contains(said, `"msg":"rescaled"`) {
				t.Errorf("the workers did not come up as 7, they became it: %s", said)
			}
		})
	}
}

// TestDamagedHistory starts with a history that is damaged.
func TestDamagedHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	h := w.start()
	w.awaitWorkers(1)
	h.end()
	path := filepath.Join(w.path("state"), "history.db")
	if err := os.WriteFile(path, []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		since := len(h.said())
		h = w.start()
		h.wantLossTold(since, "history", path, "damaged")
		h.end()
		w.noneLeft()
	}
}

// TestStateRemoved removes the state directory of an hpad that runs, and makes it again.
// Meanwhile no other hpad gets hold of it; then all of it is written anew.
func TestStateRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configure(setup{})
	w.load("queue_length", 30)
	h := w.start()
	grown := h.awaitCount(3, 20*time.Second)
	w.awaitWorkers(3)
	dir := w.path("state")

	h.signal(syscall.SIGSTOP) // so that it does not notice at once
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t)
	other.configure(setup{StateDir: dir})
	second := other.launch(nil)
	second.ended(1)
	want := fmt.Sprintf("state directory %q is held by another hpad (process %d", dir, h.command.Process.Pid)
	if said := second.said(); !strings.Contains(said, want) {
		t.Errorf("the second hpad said %q, want %q", said, want)
	}
	other.noneLeft()
	h.signal(syscall.SIGCONT)

	// Within a round, of a second here, and again for each time.
	writtenAnew := func() {
		t.Helper()
		eventually(t, "the state is written anew", 10*time.Second, func() (string, bool) {
			_, state := os.Stat(filepath.Join(dir, "state.db"))
			_, history := os.Stat(filepath.Join(dir, "history.db"))
			_, lock := os.Stat(filepath.Join(dir, "lock"))
			err := errors.Join(state, history, lock)
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
