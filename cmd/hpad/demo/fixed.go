package demo

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// fixed returns what a queue has seen after a time of the load with a number of
// workers that never changes, each of which takes so long for a job.
func (l Load) fixed(workers int, elapsed, job time.Duration) Stats {
	begun := time.Unix(0, 0)
	now := begun
	queue := NewQueue(prometheus.NewRegistry())
	queue.now = func() time.Time { return now }
	type hand struct {
		job  uint64
		free time.Time
	}
	hands := make([]hand, workers)
	due, dripped := 0.0, begun
	for ; now.Sub(begun) < elapsed; now = now.Add(time.Millisecond) {
		if span := now.Sub(dripped); span >= dripInterval {
			due += l.Rate(now.Sub(begun)) * span.Seconds()
			queue.Put(int(math.Floor(due)))
			due -= math.Floor(due)
			dripped = now
		}
		for i := range hands {
			if now.Before(hands[i].free) {
				continue
			}
			queue.Done(hands[i].job)
			if taken, ok, _ := queue.first(); ok {
				hands[i] = hand{taken.ID, now.Add(job)}
			}
		}
	}
	return queue.Stats()
}

// worth compares the fleet with fixed ones on the same load.
func worth(story *Story, stats Stats, elapsed, total time.Duration) []string {
	if stats.Done == 0 || story.Measured == 0 {
		return nil
	}
	lines := []string{"", "What it was worth, on the same load:", "", "  FLEET          AVERAGE WAIT   LONGEST   STILL WAITING   INSTANCE-MINUTES"}
	row := func(name string, stats Stats, workers float64) {
		wait := stats.Waited / time.Duration(max(1, stats.Taken))
		lines = append(lines, fmt.Sprintf("  %-13s  %12v  %8v  %14d  %17.1f", name, wait.Round(10*time.Millisecond),
			stats.LongestWait.Round(10*time.Millisecond), stats.Waiting, workers*elapsed.Minutes()))
	}
	row("hpad", stats, story.WorkerTime.Seconds()/story.Measured.Seconds())
	job := stats.Worked / time.Duration(stats.Done)
	for _, workers := range slices.Compact([]int{int(story.Least), int(story.Peak)}) {
		row(fmt.Sprintf("always %d", workers), Load{Duration: total}.fixed(workers, elapsed, job), float64(workers))
	}
	return lines
}
