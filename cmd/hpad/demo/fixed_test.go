package demo

import (
	"strings"
	"testing"
	"time"
)

func TestFixedFleets(t *testing.T) {
	load := Load{Duration: time.Minute}
	small, large := load.fixed(1, time.Minute, jobTime), load.fixed(MaxWorkers, time.Minute, jobTime)
	if small.Arrived != large.Arrived || small.Arrived < 2000 {
		t.Errorf("%d and %d jobs arrived, want as many", small.Arrived, large.Arrived)
	}
	// Of 1200 it could do, about 75 are missing: at first only 8 a second arrive.
	if small.Done < 1100 || small.Done > 1150 || small.Waiting < 500 || small.LongestWait < 10*time.Second {
		t.Errorf("one worker, 20 jobs a second: %+v", small)
	}
	if large.Waiting > 2 || large.LongestWait > jobTime {
		t.Errorf("more workers than are needed: %+v", large)
	}
}

func TestWorth(t *testing.T) {
	story := &Story{Least: 1, Peak: 10, Measured: 30 * time.Second, WorkerTime: 120 * time.Second}
	stats := Stats{Arrived: 100, Done: 100, Taken: 100, Waited: 10 * time.Second, LongestWait: time.Second, Worked: 5 * time.Second}
	text := strings.Join(worth(story, stats, time.Minute, time.Minute), "\n")
	for _, want := range []string{"hpad                  100ms        1s               0                4.0", "always 1 ", "always 10 ", " 1.0\n", " 10.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}
