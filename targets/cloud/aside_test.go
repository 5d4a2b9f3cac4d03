package cloud

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hpad/hpad/targets"
)

// TestAside: a value is read again after the interval, and at once where it may be had
// then; what was read stays when it cannot be read any more.
func TestAside(t *testing.T) {
	broken := errors.New("broken")
	type step struct {
		after time.Duration
		err   error
		calls int
	}
	for name, c := range map[string]struct {
		how   func(*Aside[int], time.Duration, func() (int, error))
		steps []step
	}{
		"Refresh": {(*Aside[int]).Refresh, []step{
			{0, nil, 1}, {59 * time.Second, nil, 1}, {time.Second, broken, 2}, {0, targets.ErrForbidden, 3}, {59 * time.Second, nil, 3}, {time.Second, nil, 4},
		}},
		"Try": {(*Aside[int]).Try, []step{
			{0, nil, 1}, {0, nil, 2}, {0, broken, 3}, {59 * time.Second, nil, 3}, {time.Second, nil, 4},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a Aside[int]
				calls, good := 0, 0
				for n, s := range c.steps {
					time.Sleep(s.after)
					before := calls
					c.how(&a, time.Minute, func() (int, error) { calls++; return calls, s.err })
					if calls > before && s.err == nil {
						good = calls
					}
					value, known := a.Value()
					if calls != s.calls || value != good || !known || calls > before && !errors.Is(a.Failure(), s.err) {
						t.Errorf("step %d: %d calls, value %d, %t, failure %v; want %d calls and %d", n+1, calls, value, known, a.Failure(), s.calls, good)
					}
				}
			})
		})
	}
}

// TestAsideExpires: what is known to be out of date is read again at once.
func TestAsideExpires(t *testing.T) {
	var a Aside[int]
	calls := 0
	for _, want := range []int{1, 1, 2} {
		if want > 1 {
			a.Expire()
		}
		a.Refresh(time.Hour, func() (int, error) { calls++; return calls, nil })
		if value, _ := a.Value(); value != want {
			t.Errorf("the value is %d, want %d", value, want)
		}
	}
}
