package probe

import (
	"errors"
	"testing"
)

// TestVerdict checks that one success is sufficient, and that only consecutive failures count.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		threshold int
		// probes are "+" for a success and "-" for a failure. For each probe, want contains "r" for
		// ready or "u" for unready, in capitals if the probe has changed the state.
		probes, want string
	}{
		"one success":                      {3, "+", "R"},
		"one failure":                      {3, "-", "u"},
		"failures at first":                {3, "-----+", "uuuuuR"},
		"consecutive failures":             {3, "+----", "RrrUu"},
		"no consecutive failures":          {3, "+--+--+", "Rrrrrrr"},
		"ready again":                      {2, "+--+-+--", "RrURrrrU"},
		"the first failure":                {1, "+-+-", "RURU"},
		"failure before the first success": {2, "-+-", "uRr"},
	} {
		t.Run(name, func(t *testing.T) {
			var v State
			var got []byte
			for _, probe := range c.probes {
				var err error
				if probe == '-' {
					err = errors.New("connection refused")
				}
				changed := Limits{FailureThreshold: c.threshold}.Add(&v, err)
				letter := byte('u')
				if v.Ready {
					letter = 'r'
				}
				if changed {
					letter -= 'a' - 'A'
				}
				got = append(got, letter)
			}
			if string(got) != c.want {
				t.Errorf("verdicts after %s = %s, want %s", c.probes, got, c.want)
			}
		})
	}
}

// TestReason checks the reason of an instance before the first probe, after failures, and when it is
// ready.
func TestReason(t *testing.T) {
	limits := Limits{FailureThreshold: 2}
	var state State
	want := func(want string) {
		t.Helper()
		if got := state.Reason(); got != want {
			t.Errorf("Reason() = %q, want %q", got, want)
		}
	}
	want("readiness probe: no result yet")
	limits.Add(&state, errors.New("GET http://127.0.0.1:1/: 503"))
	want("readiness probe: GET http://127.0.0.1:1/: 503")
	limits.Add(&state, nil)
	want("")
	limits.Add(&state, errors.New("timeout"))
	want("") // still ready
	limits.Add(&state, errors.New("timeout"))
	want("readiness probe: timeout")
}
