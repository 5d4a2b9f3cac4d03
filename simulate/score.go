package simulate

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Measure is a measured value, or NaN if the recording does not contain the data for it. JSON omits NaN.
type Measure float64

// IsZero reports whether the value is NaN. Package encoding/json calls it for "omitzero".
func (m Measure) IsZero() bool { return math.IsNaN(float64(m)) }

// Score describes the result of one policy in the scored period. Shares are between 0 and 1.
type Score struct {
	InstanceHours float64 `json:"instance_hours"`
	// Cost is InstanceHours multiplied by the price.
	Cost float64 `json:"cost"`
	// Shortage is the share of time with a load above the capacity of the ready instances, and
	// ShortageDepth the mean part of the load above it in that time.
	Shortage      Measure `json:"shortage,omitzero"`
	ShortageDepth Measure `json:"shortage_depth,omitzero"`
	// Surplus is the share of time with more ready instances than the target values of the first
	// policy require, and SurplusDepth the mean part of the instances that were not required in that
	// time.
	Surplus         Measure `json:"surplus,omitzero"`
	SurplusDepth    Measure `json:"surplus_depth,omitzero"`
	ChangesPerDay   float64 `json:"changes_per_day"`
	ReversalsPerDay float64 `json:"reversals_per_day"`
	// UtilizationP95 and UtilizationP99 are percentiles of the used part of the capacity; 1 is full.
	UtilizationP95  Measure `json:"utilization_p95,omitzero"`
	UtilizationP99  Measure `json:"utilization_p99,omitzero"`
	MinutesAtMax    float64 `json:"minutes_at_max"`
	LongestShortage Measure `json:"longest_shortage_minutes,omitzero"`
	// LowConfidence is the number of recorded minutes with a load that may have been higher than
	// measured. It is NaN if the recording contains no counts.
	LowConfidence Measure `json:"low_confidence_minutes,omitzero"`
}

// sample is the state after a pass.
type sample struct {
	at                        time.Time
	replicas, draining, ready int32
	// used and need are the results of row.demand.
	used, need float64
	atMax, low bool
}

// scorer sums up the states of a row.
type scorer struct {
	// step is the longest usual time between two passes.
	step  time.Duration
	last  sample
	begin time.Time
	score Score
	// known, short and surplus are durations in seconds. The depths are weighted with them.
	known, short, surplus, streak float64
	shortDepth, surplusDepth      float64
	used                          []weighted
	changes, reversals, direction int
}

// weighted is a value and its duration in seconds.
type weighted struct{ value, seconds float64 }

// add adds the state after a pass. from is the count before the pass.
func (s *scorer) add(state sample, written bool, from int32) {
	if s.begin.IsZero() {
		s.begin = state.at
	} else {
		s.close(state.at)
	}
	if direction := cmp.Compare(state.replicas, from); written && direction != 0 {
		s.changes++
		if direction == -s.direction {
			s.reversals++
		}
		s.direction = direction
	}
	s.last = state
}

// close adds the time since the last pass. In a hole, only the count is known.
func (s *scorer) close(now time.Time) {
	seconds, last := now.Sub(s.last.at).Seconds(), &s.last
	s.score.InstanceHours += float64(last.replicas+last.draining) * seconds / 3600
	if last.atMax {
		s.score.MinutesAtMax += seconds / 60
	}
	if seconds > holeSteps*s.step.Seconds() {
		seconds = s.step.Seconds()
	}
	if last.low {
		s.score.LowConfidence += Measure(seconds / 60)
	}
	if last.used < 0 {
		return
	}
	s.known += seconds
	s.used = append(s.used, weighted{last.used, seconds})
	if last.used > 1 {
		s.short += seconds
		s.shortDepth += (1 - 1/last.used) * seconds
		s.streak += seconds
		s.score.LongestShortage = max(s.score.LongestShortage, Measure(s.streak/60))
	} else {
		s.streak = 0
	}
	if need := max(1, math.Ceil(last.need-rounding)); float64(last.ready) > need {
		s.surplus += seconds
		s.surplusDepth += (1 - need/float64(last.ready)) * seconds
	}
}

// rounding is the largest error of a number of instances.
const rounding = 1e-6

// finish returns the score. The last pass ends the scored period.
func (s *scorer) finish(price float64) Score {
	score := s.score
	score.Cost = score.InstanceHours * price
	score.Shortage, score.ShortageDepth = Measure(quotient(s.short, s.known)), Measure(quotient(s.shortDepth, s.short))
	score.Surplus, score.SurplusDepth = Measure(quotient(s.surplus, s.known)), Measure(quotient(s.surplusDepth, s.surplus))
	days := s.last.at.Sub(s.begin).Hours() / 24
	score.ChangesPerDay, score.ReversalsPerDay = quotient(float64(s.changes), days), quotient(float64(s.reversals), days)
	slices.SortFunc(s.used, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	score.UtilizationP95, score.UtilizationP99 = s.percentile(0.95), s.percentile(0.99)
	if s.known == 0 {
		for _, m := range []*Measure{
			&score.Shortage, &score.ShortageDepth, &score.LongestShortage, &score.Surplus, &score.SurplusDepth,
			&score.UtilizationP95, &score.UtilizationP99, &score.LowConfidence,
		} {
			*m = Measure(math.NaN())
		}
	}
	return score
}

func quotient(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// mostUsed limits a percentile. Without a ready instance, a load uses an infinite part.
const mostUsed = 100

// percentile returns the value that is not exceeded in a share of the time.
func (s *scorer) percentile(share float64) Measure {
	sum := 0.0
	for _, w := range s.used {
		if sum += w.seconds; sum >= share*s.known {
			return Measure(min(w.value, mostUsed))
		}
	}
	return 0
}

// maxMoments is the largest number of moments of a row.
const maxMoments = 3

// Moment is a period with a difference between the counts of a row and of the first row.
type Moment struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// First and Replicas are the counts of the first row and of this row at the largest difference.
	First    int32 `json:"first"`
	Replicas int32 `json:"replicas"`
	// Message explains the decision of this row at the start of the difference.
	Message string `json:"message"`
	// weight is the sum of all differences.
	weight int64
}

// differences collects the moments of a row.
type differences struct {
	open  *Moment
	found []Moment
}

// add compares the counts at a tick.
func (d *differences) add(at time.Time, first, replicas int32, message string) {
	by := int64(max(first-replicas, replicas-first))
	if by == 0 {
		d.end(at)
		return
	}
	if d.open == nil {
		d.open = &Moment{From: at, First: first, Replicas: replicas, Message: message}
	}
	if open := d.open; by > int64(max(open.First-open.Replicas, open.Replicas-open.First)) {
		open.First, open.Replicas = first, replicas
	}
	d.open.Until = at
	d.open.weight += by
}

// end ends the open moment and keeps the largest moments.
func (d *differences) end(at time.Time) {
	if d.open == nil {
		return
	}
	d.open.Until = at
	d.found = append(d.found, *d.open)
	d.open = nil
	slices.SortStableFunc(d.found, func(a, b Moment) int { return cmp.Compare(b.weight, a.weight) })
	d.found = d.found[:min(len(d.found), maxMoments)]
}

// largest returns the largest moments by time.
func (d *differences) largest() []Moment {
	if d.open != nil {
		d.end(d.open.Until)
	}
	slices.SortFunc(d.found, func(a, b Moment) int { return a.From.Compare(b.From) })
	return d.found
}
