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
		if took := time.Since(begin); took != 2*interval {
			t.Errorf("three looks took %v, want %v", took, 2*interval)
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
