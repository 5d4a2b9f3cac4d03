package demo

import (
	"context"
	"math"
	"time"
)

// MinDuration is the shortest time in which a fleet can be seen to grow and to
// shrink again.
const MinDuration = 30 * time.Second

// The load moves between these rates, in jobs a second. A worker does 20, so at
// a goal of 70 % it takes one worker and eight.
const (
	lowRate  = 8
	highRate = 110
)

// wave is the longest a single rise and fall takes; longer loads have several.
const wave = 3 * time.Minute

// The shape of a wave, in shares of its time: it is low, rises, is high, falls,
// and is low for long enough that the fleet shrinks before the end.
const (
	riseBegins = 0.08
	riseEnds   = 0.25
	fallBegins = 0.48
	fallEnds   = 0.62
)

// Load is a load that rises and falls once or, where it takes long, several
// times.
type Load struct {
	// Duration is how long the load takes in all, at least MinDuration.
	Duration time.Duration
}

// Waves returns how often the load rises and falls.
func (l Load) Waves() int {
	return max(1, int(math.Ceil(float64(l.Duration)/float64(wave))))
}

// Rate returns the load after a time since its beginning, in jobs a second. It
// is low before its beginning and after its end.
func (l Load) Rate(elapsed time.Duration) float64 {
	if elapsed <= 0 || elapsed >= l.Duration {
		return lowRate
	}
	_, at := math.Modf(float64(elapsed) / float64(l.Duration) * float64(l.Waves()))
	return lowRate + (highRate-lowRate)*height(at)
}

// Over reports whether the load has fallen for the last time.
func (l Load) Over(elapsed time.Duration) bool {
	return float64(elapsed)/float64(l.Duration)*float64(l.Waves()) >= float64(l.Waves()-1)+fallEnds
}

// height returns how high a wave is at a share of its time, from 0 to 1.
func height(at float64) float64 {
	switch {
	case at <= riseBegins || at >= fallEnds:
		return 0
	case at < riseEnds:
		return slope((at - riseBegins) / (riseEnds - riseBegins))
	case at <= fallBegins:
		return 1
	default:
		return slope((fallEnds - at) / (fallEnds - fallBegins))
	}
}

// slope goes softly from 0 to 1.
func slope(at float64) float64 { return (1 - math.Cos(math.Pi*at)) / 2 }

// dripInterval is how often jobs are put into the queue.
const dripInterval = 20 * time.Millisecond

// Drive puts jobs into the queue at the load's rate, from now until ctx ends.
func (l Load) Drive(ctx context.Context, queue *Queue) {
	ticker := time.NewTicker(dripInterval)
	defer ticker.Stop()
	begun := time.Now()
	last := begun
	due := 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		due += l.Rate(now.Sub(begun)) * now.Sub(last).Seconds()
		last = now
		whole := math.Floor(due)
		queue.Put(int(whole))
		due -= whole
	}
}
