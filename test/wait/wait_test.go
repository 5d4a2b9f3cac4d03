package wait

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUntil checks that the number of checks grows much more slowly than the time, that a slow check
// is followed by a longer pause, and that the last state is returned.
func TestUntil(t *testing.T) {
	for name, test := range map[string]struct {
		takes       time.Duration
		least, most int
	}{
		"fast": {0, 100, 300},
		"slow": {500 * time.Millisecond, 30, 41},
	} {
		synctest.Test(t, func(t *testing.T) {
			checks, begin := 0, time.Now()
			seen, ok := Until(time.Minute, func() (string, bool) {
				checks++
				time.Sleep(test.takes)
				return "state", false
			})
			if took := time.Since(begin); seen != "state" || ok || took < time.Minute || took > time.Minute+test.takes {
				t.Errorf("%s: Until() = %q, %v after %v", name, seen, ok, took)
			}
			if checks < test.least || checks > test.most {
				t.Errorf("%s: %d checks in a minute, want %d to %d", name, checks, test.least, test.most)
			}
			begin = time.Now()
			if _, ok := Until(time.Minute, func() (string, bool) { return "", time.Since(begin) >= time.Second }); !ok || time.Since(begin) > 1100*time.Millisecond {
				t.Errorf("%s: a wait for one second took %v", name, time.Since(begin))
			}
		})
	}
}
