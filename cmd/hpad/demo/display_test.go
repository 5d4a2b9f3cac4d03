package demo

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
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
	if err := shown.conclude(); err == nil {
		t.Error("no error, though the fleet neither grew nor shrank")
	}

	shown, said = testDisplay(time.Minute)
	shown.begun = time.Now().Add(-20 * time.Second)
	shown.ended, shown.interrupted = time.Now(), true
	if err := shown.conclude(); err != nil {
		t.Errorf("error = %v, want none: somebody ended the demo", err)
	}
	for _, line := range []string{"The demo ran for 20s of at most 60s.", "The demo was ended before the fleet had grown and shrunk."} {
		if !strings.Contains(said.String(), line) {
			t.Errorf("%q is not in what was said:\n%s", line, said)
		}
	}

	shown, said = testDisplay(time.Minute)
	shown.begun = time.Now().Add(-40 * time.Second)
	shown.ended, shown.settled = time.Now(), true
	_ = shown.conclude() // that no fleet grew is said above
	if !strings.Contains(said.String(), "The load is done and the fleet is back, so nothing more would happen.\n\nThe demo ran for 40s of at most 60s.") {
		t.Errorf("it does not say why it is over:\n%s", said)
	}
}

// TestShowPrintsInOrder: without a terminal all lines are in the order of their times,
// also where the table goes on between two steps.
func TestShowPrintsInOrder(t *testing.T) {
	shown, said := testDisplay(time.Minute)
	shown.panel.sample(50, 3)
	for second, counts := range [][2]int32{{1, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 5}, {5, 6}, {6, 5}, {5, 4}, {4, 4}} {
		if err := shown.add(viewAt(second, counts[0], counts[1], 0, 700)); err != nil {
			t.Fatal(err)
		}
	}
	var times []string
	for line := range strings.Lines(said.String()) {
		times = append(times, line[:len(time.TimeOnly)])
	}
	if !slices.IsSorted(times) || !strings.Contains(said.String(), " 2 → 3: ") || len(times) < 8 {
		t.Errorf("want every change and line of the table in order:\n%s", said)
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
