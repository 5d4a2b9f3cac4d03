package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// advance adds the arrivals since the last pass to the queues, and subtracts the completed items.
func (r *row) advance(now time.Time) {
	if r.at < 0 || !r.diverged {
		return
	}
	seconds := now.Sub(r.passed).Seconds()
	for m := range r.models {
		if r.models[m].Model == Queue {
			change := (r.arrivals[m][r.at] - r.models[m].PerSecond*float64(r.served)) * seconds
			r.queues[m] = max(0, r.queues[m]+change*1000)
		}
	}
}

// queuesEqual reports whether each queue has its recorded length, up to 1 % or one item.
func (r *row) queuesEqual(i int) bool {
	for m := range r.models {
		recorded := r.loads[m][i]
		if r.models[m].Model == Queue && math.Abs(r.queues[m]-recorded) > max(1000, recorded/100) {
			return false
		}
	}
	return true
}

var (
	errNoRate = errors.New("the recording does not show how fast one instance works; name the number of items that it completes " +
		"in a second: --assume METRIC=queue:RATE")
	errNoArrivals = errors.New("it was never longer than the number of ready instances, so that the arrivals are unknown; " +
		"--assume METRIC=total uses the recorded length for all counts")
)

// reconstructArrivals computes the arrivals of a queue from its recorded length and capacity. They
// are unknown while instances may be idle. Then they are interpolated, and count as low confidence.
func (s *simulation) reconstructArrivals(m int) error {
	ticks, model := s.recording.Ticks, &s.models[m]
	if !slices.ContainsFunc(ticks, func(t Tick) bool { return t.serving() >= 0 }) {
		return fmt.Errorf("%w; --assume METRIC=total uses the recorded length for all counts", errCountsUnknown)
	}
	if model.PerSecond == 0 {
		if model.PerSecond = s.estimateRate(m); model.PerSecond <= 0 {
			return errNoRate
		}
		model.Estimated = true
	}
	arrivals := slices.Repeat([]float64{math.NaN()}, len(ticks))
	for i, j := 0, 1; j < len(ticks); j++ {
		if math.IsNaN(s.loads[m][j]) {
			continue
		}
		if s.isBusy(m, i) {
			rate := max(0, s.growth(m, i, j)+model.PerSecond*float64(ticks[i].serving()))
			for k := i; k < j; k++ {
				arrivals[k] = rate
			}
		}
		i = j
	}
	s.arrivals[m] = arrivals
	return s.interpolate(m)
}

// interpolate sets the unknown arrivals of a queue. It interpolates between the known arrivals before
// and after them, limited by the recorded capacity.
func (s *simulation) interpolate(m int) error {
	arrivals := s.arrivals[m]
	before := -1
	known := func(rate float64) bool { return !math.IsNaN(rate) }
	if !slices.ContainsFunc(arrivals, known) {
		return errNoArrivals
	}
	for i := range arrivals {
		if known(arrivals[i]) {
			before = i
			continue
		}
		after := slices.IndexFunc(arrivals[i:], known)
		end := i + after
		if after < 0 {
			end = len(arrivals)
		}
		for k := i; k < end; k++ {
			rate := 0.0
			switch {
			case before < 0:
				rate = arrivals[end]
			case after < 0:
				rate = arrivals[before]
			default:
				rate = arrivals[before] + (arrivals[end]-arrivals[before])*float64(k-before)/float64(end-before)
			}
			arrivals[k] = min(rate, s.models[m].PerSecond*float64(max(0, s.recording.Ticks[k].serving())))
			s.low[k] = true
		}
		before = end - 1
	}
	return nil
}

// isBusy reports whether a queue had an item for each ready instance.
func (s *simulation) isBusy(m, i int) bool {
	serving := s.recording.Ticks[i].serving()
	return serving >= 0 && s.loads[m][i] > 0 && s.loads[m][i] >= 1000*float64(serving)
}

// growth returns the growth of a queue between two ticks, in items per second.
func (s *simulation) growth(m, i, j int) float64 {
	ticks := s.recording.Ticks
	return (s.loads[m][j] - s.loads[m][i]) / 1000 / ticks[j].Time.Sub(ticks[i].Time).Seconds()
}

// minimumChanges is the number of changes of the ready instances that an estimate needs.
const minimumChanges = 3

// estimateRate returns the number of items that one instance completes in a second. It assumes that
// the arrivals change independently of the ready instances. Then a change of the growth between two
// steps is the rate multiplied by the change of the ready instances, at the start of the steps and
// within them. Both are fitted by least squares. It returns 0 if there are too few changes.
func (s *simulation) estimateRate(m int) float64 {
	ticks := s.recording.Ticks
	var aa, ab, bb, ag, bg float64
	changes := 0
	for i := 0; i+2 < len(ticks); i++ {
		if !s.isBusy(m, i) || !s.isBusy(m, i+1) || !s.isBusy(m, i+2) {
			continue
		}
		first, second := float64(ticks[i+1].serving()-ticks[i].serving()), float64(ticks[i+2].serving()-ticks[i+1].serving())
		growth := s.growth(m, i, i+1) - s.growth(m, i+1, i+2)
		a, b := first, second-first
		if a != 0 {
			changes++
		}
		aa, ab, bb, ag, bg = aa+a*a, ab+a*b, bb+b*b, ag+a*growth, bg+b*growth
	}
	determinant := aa*bb - ab*ab
	if changes < minimumChanges || determinant == 0 {
		return 0
	}
	return (ag*bb - bg*ab) / determinant
}
