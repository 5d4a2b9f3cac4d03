package demo

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestLoadRisesAndFalls(t *testing.T) {
	for duration, waves := range map[time.Duration]int{
		MinDuration: 1, 90 * time.Second: 1, 3 * time.Minute: 1, 3*time.Minute + time.Second: 2, 10 * time.Minute: 4,
	} {
		t.Run(duration.String(), func(t *testing.T) {
			load := Load{Duration: duration}
			if got := load.Waves(); got != waves {
				t.Errorf("%d waves, want %d", got, waves)
			}
			peaks, top, low := 0, false, 0
			const steps = 10_000
			for i := range steps {
				rate := load.Rate(duration * time.Duration(i) / steps)
				if rate < lowRate || rate > highRate {
					t.Fatalf("rate is %v after %d of %d steps, want it from %d to %d", rate, i, steps, lowRate, highRate)
				}
				if !top && rate == highRate {
					peaks++
				}
				top = rate == highRate
				if rate == lowRate {
					low++
				}
			}
			if peaks != waves {
				t.Errorf("the load was high %d times, want %d", peaks, waves)
			}
			if low < steps*2/5 {
				t.Errorf("the load is low for %d of %d steps, too short to shrink", low, steps)
			}
			for _, outside := range []time.Duration{-time.Second, 0, duration, 2 * duration} {
				if got := load.Rate(outside); got != lowRate {
					t.Errorf("rate at %v is %v, want %d", outside, got, lowRate)
				}
			}
		})
	}
}

func TestLoadIsSmooth(t *testing.T) {
	load := Load{Duration: time.Minute}
	before := load.Rate(0)
	for at := time.Duration(0); at < load.Duration; at += 100 * time.Millisecond {
		rate := load.Rate(at)
		if math.Abs(rate-before) > 5 {
			t.Errorf("the load jumps from %v to %v at %v", before, rate, at)
		}
		before = rate
	}
}

func TestDrivePutsJobsAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		load := Load{Duration: MinDuration}
		queue := NewQueue(prometheus.NewRegistry())
		ctx, cancel := context.WithTimeout(t.Context(), MinDuration)
		defer cancel()
		load.Drive(ctx, queue)
		want := 0.0
		for at := time.Duration(0); at < MinDuration; at += time.Millisecond {
			want += load.Rate(at) / 1000
		}
		if got := queue.Stats().Arrived; math.Abs(float64(got)-want) > 5 {
			t.Errorf("%d jobs arrived, want %.0f", got, want)
		}
	})
}

func ExampleLoad_Rate() {
	load := Load{Duration: time.Minute}
	for _, at := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 33 * time.Second, 45 * time.Second} {
		fmt.Printf("%v: %.0f jobs/s\n", at, load.Rate(at))
	}
	// Output:
	// 0s: 8 jobs/s
	// 10s: 61 jobs/s
	// 20s: 110 jobs/s
	// 33s: 59 jobs/s
	// 45s: 8 jobs/s
}
