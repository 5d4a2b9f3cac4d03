package clock

import (
	"reflect"
	"slices"
	"time"
)

// Offset is the difference between the wall clock and steady time from one steady time on.
type Offset struct {
	From  time.Time     `json:"from"`
	Ahead time.Duration `json:"ahead"`
}

// Scale converts between steady time and wall clock time. It is immutable. The zero Scale has no
// offset.
type Scale struct {
	// base is the steady time at the start of its Clock.
	base time.Time
	// offsets are the offsets after each step, the oldest first.
	offsets []Offset
}

func (s *Scale) with(next Offset) *Scale {
	offsets := append(slices.Clone(s.offsets), next)
	if over := len(offsets) - keptOffsets; over > 0 {
		offsets = offsets[over:]
		offsets[0].From = time.Time{} // also replaces the deleted offsets
	}
	return &Scale{base: s.base, offsets: offsets}
}

// Offset returns the present difference between the wall clock and steady time.
func (s *Scale) Offset() time.Duration {
	if len(s.offsets) == 0 {
		return 0
	}
	return s.offsets[len(s.offsets)-1].Ahead
}

// Wall converts steady time to wall clock time by the present offset. A zero time stays zero.
func (s *Scale) Wall(t time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !t.IsZero() {
		return t.Add(offset)
	}
	return t
}

// Steady is the inverse of Wall. A zero time stays zero.
func (s *Scale) Steady(wall time.Time) time.Time {
	if offset := s.Offset(); offset != 0 && !wall.IsZero() {
		return wall.Add(-offset)
	}
	return wall
}

// Happened returns the steady time of an event that another system dated by the wall clock, by
// the offset at that time; now is the present steady time. A time that the wall clock showed
// twice is the second one. A time that it skipped is the time of the step, and a future time is
// now. A zero time stays zero.
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

// Shown returns a value with its times converted to wall clock time, see [Moved].
func Shown[T any](s *Scale, value T) T {
	if s.Offset() == 0 {
		return value
	}
	return Moved(value, s.Wall)
}

// Moved returns a copy of a value in which move has replaced all times: in structs, behind
// pointers and in slices. It skips fields with the tag `json:"-"` or `clock:"wall"`.
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
