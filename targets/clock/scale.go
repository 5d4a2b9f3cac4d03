package clock

import (
	"reflect"
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

// Shown returns a value with its times as the wall clock has them, see [Moved].
func Shown[T any](s *Scale, value T) T {
	if s.Offset() == 0 {
		return value
	}
	return Moved(value, s.Wall)
}

// Moved returns a copy of a value with all its times replaced by move: those in structs,
// behind pointers and in lists. Fields with the tag `json:"-"` keep their times, and so do
// those with the tag `clock:"wall"`, which are of another clock. The value is not changed.
func Moved[T any](value T, move func(time.Time) time.Time) T {
	moveTimes(reflect.ValueOf(&value).Elem(), move)
	return value
}

var timeType = reflect.TypeFor[time.Time]()

func moveTimes(v reflect.Value, move func(time.Time) time.Time) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			at := v.Addr().Interface().(*time.Time)
			*at = move(*at)
			return
		}
		for field, inner := range v.Fields() {
			if field.IsExported() && field.Tag.Get("json") != "-" && field.Tag.Get("clock") != "wall" {
				moveTimes(inner, move)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			moveTimes(own.Elem(), move)
			v.Set(own)
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); !v.IsNil() && (kind == reflect.Struct || kind == reflect.Pointer) {
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range own.Len() {
				moveTimes(own.Index(i), move)
			}
			v.Set(own)
		}
	}
}
