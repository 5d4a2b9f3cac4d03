package clock

import (
	"slices"
	"time"
)

// Offset is how far the wall clock was ahead of steady time, below zero for
// behind, from one steady time on.
type Offset struct {
	From  time.Time     `json:"from"`
	Ahead time.Duration `json:"ahead"`
}

// Scale converts between steady time and the wall clock's. It never changes: a
// step makes another one. The zero Scale is that of a clock without steps, where
// both are the same.
type Scale struct {
	// base is the steady time when its Clock began.
	base time.Time
	// offsets are those since each step, the oldest first.
	offsets []Offset
}

// with returns the scale after another step.
func (s *Scale) with(next Offset) *Scale {
	offsets := append(slices.Clone(s.offsets), next)
	if over := len(offsets) - keptOffsets; over > 0 {
		offsets = offsets[over:]
		offsets[0].From = time.Time{} // stands for those before, too
	}
	return &Scale{base: s.base, offsets: offsets}
}

// Offset returns how far the wall clock is ahead of steady time at present.
func (s *Scale) Offset() time.Duration {
	if len(s.offsets) == 0 {
		return 0
	}
	return s.offsets[len(s.offsets)-1].Ahead
}

// Stepped reports whether the wall clock was stepped as far as is known.
func (s *Scale) Stepped() bool { return len(s.offsets) > 0 }

// Wall returns a steady time as the wall clock, as it goes at present, has it. A
// zero time stays zero.
func (s *Scale) Wall(t time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !t.IsZero() {
		return t.Add(offset)
	}
	return t
}

// Steady returns the steady time that Wall has made a time of. A zero time stays
// zero.
func (s *Scale) Steady(wall time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !wall.IsZero() {
		return wall.Add(-offset)
	}
	return wall
}

// Happened returns the steady time of something that happened when the wall clock
// showed a time, as the wall clock went then; now is the present steady time. What
// the wall clock showed twice happened the second time, what it did not show when
// it was stepped over it, and what it has yet to show happened now. A zero time
// stays zero.
func (s *Scale) Happened(wall, now time.Time) time.Time {
	if wall.IsZero() {
		return wall
	}
	var nearest time.Time
	until := now
	for i := len(s.offsets) - 1; i >= -1; i-- {
		var since Offset // before the first step both were the same
		if i >= 0 {
			since = s.offsets[i]
		}
		at := wall.Add(-since.Ahead)
		if i >= 0 && at.Before(since.From) {
			until = since.From
			continue
		}
		if !at.After(until) {
			return at
		}
		if nearest.IsZero() {
			nearest = until
		}
		until = since.From
	}
	return nearest
}
