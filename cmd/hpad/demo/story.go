package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// Story is what happened to the fleet so far, decision by decision. Its zero
// value is ready.
type Story struct {
	// Start is the count at the beginning, Now the last one, Peak and Least the
	// largest and smallest in between.
	Start, Now, Peak, Least int32
	// Ups and Downs count the changes.
	Ups, Downs int
	// Last is the decision of the last change; nil before the first.
	Last *policy.Decision
	// OverGoal is for how long a metric was over its goal by more than the
	// tolerance, of Measured in all.
	OverGoal, Measured time.Duration
	// WorkerTime is the time of all workers together, while it was measured.
	WorkerTime time.Duration

	begun bool
	// lowAfterPeak is the smallest count since the peak.
	lowAfterPeak int32
	// since is the time of the last decision, over what it said of the goals.
	since time.Time
	over  bool
}

// Tell adds a decision. Views have to come in the order of their decisions; one
// without a decision, or with one that could not read the fleet, adds nothing.
func (s *Story) Tell(view api.Autoscaler) {
	d := view.Decision
	if d == nil || d.Case == policy.CaseUnreadable {
		return
	}
	s.measure(d)
	if !s.begun {
		s.begun = true
		s.Start, s.Peak, s.Least, s.lowAfterPeak = d.CurrentReplicas, d.CurrentReplicas, d.CurrentReplicas, d.CurrentReplicas
	}
	s.count(d.CurrentReplicas)
	if !Changed(view) {
		return
	}
	s.count(d.DesiredReplicas)
	s.Last = d
	if d.DesiredReplicas > d.CurrentReplicas {
		s.Ups++
	} else {
		s.Downs++
	}
}

func (s *Story) count(replicas int32) {
	s.Now = replicas
	s.Least = min(s.Least, replicas)
	s.lowAfterPeak = min(s.lowAfterPeak, replicas)
	if replicas > s.Peak {
		s.Peak, s.lowAfterPeak = replicas, replicas
	}
}

// measure adds the time since the last decision, during which things were as it
// said.
func (s *Story) measure(d *policy.Decision) {
	if span := d.Time.Sub(s.since); !s.since.IsZero() && span > 0 {
		s.Measured += span
		s.WorkerTime += time.Duration(s.Now) * span
		if s.over {
			s.OverGoal += span
		}
	}
	s.since, s.over = d.Time, false
	for i := range d.Metrics {
		s.over = s.over || OverGoal(&d.Metrics[i])
	}
}

// Changed reports whether a view's decision changed the count.
func Changed(view api.Autoscaler) bool {
	d := view.Decision
	return d != nil && d.Write && view.Status.LastScaleTime.Equal(d.Time)
}

// OverGoal reports whether a metric is over its goal by more than the tolerance.
func OverGoal(result *policy.MetricResult) bool {
	return result.Error == "" && result.Ratio != nil && *result.Ratio > 1+result.ToleranceUp
}

// Verdict returns nil if the fleet grew and then shrank, else what did not
// happen.
func (s *Story) Verdict() error {
	switch {
	case !s.begun:
		return errors.New("nothing was decided, so the fleet neither grew nor shrank")
	case s.Peak == s.Start:
		return fmt.Errorf("the fleet did not grow: it never had more workers than the %d at the start", s.Start)
	case s.lowAfterPeak == s.Peak:
		return fmt.Errorf("the fleet did not shrink: it grew from %d to %d workers and stayed there", s.Start, s.Peak)
	default:
		return nil
	}
}
