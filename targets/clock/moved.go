package clock

import (
	"reflect"
	"time"
)

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
