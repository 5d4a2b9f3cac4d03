package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/wait"
)

// Ghost is the name of Vanishing's target. The target has Present instances, and Left instances
// after the real loss. Its queue has 10*Present entries.
const (
	Ghost   = "ghost"
	Present = 6
	Left    = 2
)

// confirm is the default number of consecutive implausible readings that hpad ignores before it
// accepts one.
const confirm = 3

// lost is the time after which the test repeats a false response that hpad has not received.
const lost = 15 * time.Second

// Vanishing tests hpad's reaction to implausible readings of a cloud target.
type Vanishing struct {
	// Fleet is the configuration of the fleet. Target is the TOML of the target.
	Fleet, Target string
	// Lie makes the platform report one instance and a count of one for the given number of
	// rounds.
	Lie func(rounds int)
	// Lose reduces the target to Left instances by an external change.
	Lose func()
	// Count returns the desired count. Writes returns the number of changes sent to the platform.
	Count, Writes func() int
}

// Run checks that hpad ignores implausible readings in one and in three consecutive rounds, and
// that it accepts a real loss after three more rounds.
func (v Vanishing) Run(t *testing.T, l *Load) {
	l.Queue(Ghost, 10*Present)
	w := New(t, v.Fleet+l.Source()+Queued(Ghost, v.Target, 1, 20))
	w.Await(Ghost, policy.ScalingActive, "ValidMetricFound", "")
	doubted := func() int {
		return int(w.Metric("hpad_autoscaler_doubted_readings_total", prometheus.Labels{"autoscaler": Ghost}))
	}
	doubts := 0
	for _, rounds := range []int{1, confirm} {
		w.Passes(Ghost, 2)
		v.Lie(rounds)
		doubts += rounds
		told := time.Now()
		wait.For(t, Patience, fmt.Sprintf("%d ignored readings", doubts), func() (string, bool) {
			now := doubted()
			if now < doubts && time.Since(told) > lost { // on a loaded host, a round may end before its response arrives
				v.Lie(doubts - now)
				told = time.Now()
			}
			return fmt.Sprintf("%d were ignored", now), now >= doubts
		})
		w.Await(Ghost, policy.AbleToScale, "ReadyForNewScale", "")
		w.Passes(Ghost, 2)
		if count, writes, now := v.Count(), v.Writes(), doubted(); count != Present || writes != 0 || now != doubts {
			t.Errorf("got count %d, %d writes and %d ignored readings, want %d, 0 and %d", count, writes, now, Present, doubts)
		}
		if c := w.Condition(Ghost, policy.ForeignWriter); c.Status == policy.ConditionTrue {
			t.Errorf("got %+v, want no external change", c)
		}
	}

	v.Lose()
	w.Await(Ghost, policy.AbleToScale, "ImplausibleReading", fmt.Sprintf("from %d to %d", Present, Left))
	doubts += confirm
	wait.For(t, Patience, "replacement of the lost instances", func() (string, bool) {
		writes, now := v.Writes(), doubted()
		if writes > 0 && now < doubts {
			t.Fatalf("got a write after %d ignored readings, want at least %d", now, doubts)
		}
		return fmt.Sprintf("count %d after %d ignored readings", v.Count(), now), v.Count() == Present
	})
	if writes, now := v.Writes(), doubted(); writes != 1 || now != doubts {
		t.Errorf("got %d writes and %d ignored readings, want 1 and %d", writes, now, doubts)
	}
}
