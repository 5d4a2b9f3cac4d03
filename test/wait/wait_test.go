package wait

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		look := func(enough int) func() (string, bool) {
			looks = 0
			return func() (string, bool) {
				looks++
				return strconv.Itoa(looks), looks == enough
			}
		}
		begin := time.Now()
		if seen, ok := Until(time.Second, look(3)); seen != "3" || !ok {
			t.Errorf("Until() = %q, %t, want the third look", seen, ok)
		}
		if took := time.Since(begin); took != 2*shortest {
			t.Errorf("three looks took %v, want %v", took, 2*shortest)
		}
		for took, want := range map[time.Duration]time.Duration{
			time.Millisecond:       2*shortest + 3*time.Millisecond,
			100 * time.Millisecond: 2*ofLook*100*time.Millisecond + 300*time.Millisecond,
			time.Minute:            2*longest + 3*time.Minute,
		} {
			begin = time.Now()
			slow := look(3)
			if seen, ok := Until(time.Hour, func() (string, bool) { time.Sleep(took); return slow() }); !ok {
				t.Errorf("Until() = %q, %t, want the third look", seen, ok)
			}
			if got := time.Since(begin); got != want {
				t.Errorf("three looks of %v took %v, want %v", took, got, want)
			}
		}
		begin = time.Now()
		if seen, ok := Until(time.Second, look(1000)); ok || seen == "" {
			t.Errorf("Until() = %q, %t, want what was seen last, and false", seen, ok)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("giving up took %v, want 1s", took)
		}
	})
}
