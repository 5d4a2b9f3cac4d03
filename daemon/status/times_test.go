package status_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/targets/clock"
)

// TestEveryTimeIsWallClockTime sets every time in the API types and checks that each is converted
// to a wall-clock time, including fields that are added later.
func TestEveryTimeIsWallClockTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var step time.Duration
		c := clock.New(clock.System{Wall: func() time.Time { return time.Now().Add(step) }})
		monotonic := time.Now().UTC().Round(0)
		step = time.Hour
		var view api.Autoscaler
		fillTimes(reflect.ValueOf(&view).Elem(), monotonic)
		shown := clock.AsWallTime(c.Scale(), view)
		kept := map[string]bool{
			"Autoscaler.Decision.Hold.Until":   true, // a wall-clock time of the platform
			"Autoscaler.Evaluation.Hold.Until": true,
		}
		found := 0
		eachTime(reflect.ValueOf(shown), "Autoscaler", func(path string, at time.Time) {
			found++
			want := monotonic.Add(step)
			if kept[path] {
				want = monotonic
			}
			if !at.Equal(want) {
				t.Errorf("%s = %s, want %s", path, at, want)
			}
		})
		if found < 20 {
			t.Errorf("%d times found in the view, want more", found)
		}
	})
}

var timeType = reflect.TypeFor[time.Time]()

// fillTimes sets every time in v, including one element of each slice and the values of pointers.
func fillTimes(v reflect.Value, at time.Time) {
	switch {
	case !v.CanSet():
	case v.Type() == timeType:
		v.Set(reflect.ValueOf(at))
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			fillTimes(field, at)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillTimes(v.Elem(), at)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillTimes(v.Index(0), at)
	}
}

// eachTime calls visit for every encoded time in v with its path.
func eachTime(v reflect.Value, path string, visit func(path string, at time.Time)) {
	switch {
	case v.Type() == timeType:
		visit(path, v.Interface().(time.Time))
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() && field.Tag.Get("json") != "-" {
				eachTime(value, path+"."+field.Name, visit)
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		eachTime(v.Elem(), path, visit)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			eachTime(v.Index(i), path, visit)
		}
	}
}
