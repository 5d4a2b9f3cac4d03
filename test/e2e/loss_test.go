package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/soak"
)

// wantLossReported checks that the log after the byte offset since, /-/ready, the CLI and /metrics
// report that part of the state was lost.
func (w *fixture) wantLossReported(since int, part string, texts ...string) {
	w.t.Helper()
	ready, described := w.ready(), w.Says("describe", "worker")
	logged := w.Said()[since:]
	for _, text := range append(texts, "shown until") {
		if !strings.Contains(ready, text) || !strings.Contains(ready, `"subject":"state"`) || !strings.Contains(ready, `"ready":true`) {
			w.t.Errorf("/-/ready returned %s, want %q", ready, text)
		}
		if !strings.Contains(described, text) {
			w.t.Errorf("hpad describe printed %s, want %q", described, text)
		}
	}
	for _, text := range append(texts, "state lost") {
		if !strings.Contains(logged, text) {
			w.t.Errorf("log = %s, want %q", logged, text)
		}
	}
	eventually(w.t, "hpad get reports it, after the worker is scraped", func() (string, bool) {
		output := w.Says("get")
		return output, strings.Contains(output, "PROBLEM") && strings.Contains(output, "state at 2")
	})
	if metrics := w.metrics(); !strings.Contains(metrics, fmt.Sprintf("hpad_state_lost{part=%q} 1\n", part)) {
		w.t.Errorf("/metrics does not report the loss of %s:\n%s", part, metrics)
	}
}

// TestStateRemoved removes the state directory while hpad runs. hpad must write it again.
func TestStateRemoved(t *testing.T) {
	t.Parallel()
	w := newFixture(t, program.Options{})
	w.load("queue_length", 30)
	w.start(setup{})
	w.awaitCount(3)
	w.awaitWorkers(3)
	dir := w.State()

	// hpad checks the directory once per round, which takes one second here.
	awaitState := func() {
		t.Helper()
		eventually(t, "the state is written again", func() (string, bool) {
			_, state := os.Stat(filepath.Join(dir, "state.db"))
			_, history := os.Stat(filepath.Join(dir, "history.db"))
			err := errors.Join(state, history)
			return fmt.Sprint(err), err == nil
		})
	}
	for n := range soak.Rounds(3, 50) {
		w.load("queue_length", 40-n%2*10)
		awaitState()
		if err := os.Rename(dir, filepath.Join(w.dir, fmt.Sprint("removed-", n))); err != nil {
			t.Fatal(err)
		}
	}
	awaitState()
	w.load("queue_length", 50)
	w.awaitCount(5)
	w.load("queue_length", 30)
	grown := w.awaitCount(3)
	eventually(t, "/-/ready reports the loss", func() (string, bool) {
		ready := w.ready()
		return ready, strings.Contains(ready, "removed while hpad ran") &&
			!strings.Contains(ready, "cannot be written")
	})
	w.wantLossReported(0, "directory", dir)
	w.Kill()
	w.awaitNoProcesses()

	since := len(w.Said())
	w.Start()
	w.awaitWorkers(3)
	if again := w.View("worker"); !again.Status.LastScaleTime.Equal(grown.Status.LastScaleTime) || !again.Created.Equal(grown.Created) {
		t.Errorf("last scale time = %s, creation = %s after the restart, want %s and %s",
			again.Status.LastScaleTime, again.Created, grown.Status.LastScaleTime, grown.Created)
	}
	w.wantOutput([]string{"history", "worker"}, "3")
	w.wantLossReported(since, "directory", dir)
	w.Stop()
	w.awaitNoProcesses()
}
