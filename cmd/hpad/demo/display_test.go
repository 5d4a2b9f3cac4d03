package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/hpad/hpad/cmd/hpad/hint"
)

// testDisplay returns a display on plain lines.
func testDisplay(duration time.Duration) (*display, *bytes.Buffer) {
	said := new(bytes.Buffer)
	return newDisplay(said, Example(duration), NewQueue(prometheus.NewRegistry())), said
}

func TestShowTellsOfTrouble(t *testing.T) {
	shown, said := testDisplay(time.Minute)
	log := newLog(shown)
	log.Info("started")
	log.Warn("evaluation failed", zap.String("err", "no sample"))
	log.With(zap.String("source", "own")).Warn("evaluation failed")
	log.With(zap.String("source", "own")).Warn("source does not answer", zap.Error(errors.New("disk\nfull \x1b[2J")))
	shown.lastWarnings()
	text := said.String()
	if !strings.HasPrefix(text, "! source does not answer") || !strings.Contains(text, `"source": "own"`) || strings.Count(text, "\n") != 1 {
		t.Errorf("printed %q, want one line about the source", text)
	}
	if strings.Contains(text, "\x1b") {
		t.Errorf("printed %q, which steers the terminal", text)
	}
}

// TestShowIsSilentAboutItsEnd: that reads are broken off at the end is no
// trouble, unless the daemon failed.
func TestShowIsSilentAboutItsEnd(t *testing.T) {
	shown, said := testDisplay(time.Minute)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	shown.warn("fleet cannot be read")
	if err := shown.run(ended); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(said.String(), "! ") {
		t.Errorf("said at the end:\n%s", said)
	}
	shown.lastWarnings()
	if !strings.HasSuffix(said.String(), "! fleet cannot be read\n") {
		t.Errorf("not said after a failure:\n%s", said)
	}
}

func TestShowDoesNotBlockTheDaemon(t *testing.T) {
	shown, _ := testDisplay(time.Minute)
	for range 1000 { // nobody reads
		shown.decided(viewAt(0, 1, 1, 0, 0))
		shown.warn("trouble")
	}
}

func TestShowConcludes(t *testing.T) {
	shown, said := testDisplay(time.Minute)
	shown.begun = time.Now().Add(-time.Minute)
	shown.ended = time.Now()
	for second, counts := range [][2]int32{{1, 1}, {1, 3}, {3, 2}} {
		if err := shown.add(viewAt(second, counts[0], counts[1], 0, 700)); err != nil {
			t.Fatal(err)
		}
	}
	if err := shown.conclude(); err != nil {
		t.Errorf("error = %v, want none", err)
	}
	for _, line := range []string{" 1 → 3: ", " 3 → 2: ", "1 at the start, 3 at most", "1 up, 1 down", "The fleet grew and shrank"} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("%q is not in what was said:\n%s", line, said)
		}
	}

	shown, _ = testDisplay(time.Minute)
	shown.begun = time.Now().Add(-time.Minute)
	shown.ended = time.Now()
	if err := shown.conclude(); err == nil || hint.Of(err) != "" {
		t.Errorf("error = %v with hint %q, want one without a hint: the demo was not ended early", err, hint.Of(err))
	}
}

// TestShowCollapsesSteps: of a way down in many steps the first is printed, and one
// line for all others.
func TestShowCollapsesSteps(t *testing.T) {
	shown, said := testDisplay(time.Minute)
	for second, counts := range [][2]int32{{1, 1}, {1, 5}, {5, 5}, {5, 4}, {4, 3}, {3, 3}, {3, 2}} {
		if err := shown.add(viewAt(second, counts[0], counts[1], 0, 700)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(said.String(), " → "); got != 2 || strings.Contains(said.String(), " in 2 steps") {
		t.Errorf("%d changes are printed while the way down goes on, want 1 up and 1 down:\n%s", got, said)
	}
	if err := shown.add(viewAt(30, 2, 2, 0, 700)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "12:00:26 4 → 2 in 2 steps, the last: The count goes down from 3 to 2") {
		t.Errorf("the steps after the first are not printed as one:\n%s", said)
	}
}

// TestShowSettles: the demo is over once the load has fallen for the last time and
// the fleet is back.
func TestShowSettles(t *testing.T) {
	shown, _ := testDisplay(time.Minute)
	shown.begun = start.Local()
	for second, counts := range [][2]int32{{1, 1}, {1, 5}, {5, 1}} {
		if err := shown.add(viewAt(second, counts[0], counts[1], 0, 700)); err != nil {
			t.Fatal(err)
		}
	}
	for second, want := range map[int]bool{4: false, 36: false, 38: true, 59: true} {
		if got := shown.isSettled(start.Add(time.Duration(second) * time.Second)); got != want {
			t.Errorf("settled after %d s: %v, want %v", second, got, want)
		}
	}
	shown.panel.waiting = 1
	if shown.isSettled(start.Add(50 * time.Second)) {
		t.Error("settled while a job waits")
	}
}
