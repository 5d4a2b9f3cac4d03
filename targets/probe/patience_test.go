package probe

import (
	"errors"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	var p Patience
	for range 2 {
		if p.SetDefaults(); p != (Patience{Timeout: time.Second, FailureThreshold: 3}) {
			t.Errorf("defaults are %+v", p)
		}
	}
	given := Patience{Timeout: 1, FailureThreshold: 1}
	p = given
	if p.SetDefaults(); p != given {
		t.Errorf("SetDefaults() makes %+v of %+v", p, given)
	}
}

// TestVerdict: one success is enough, and only failures in a row add up.
func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		threshold int
		// probes are "+" for one that succeeded and "-" for one that failed; after
		// each, "r" or "u" is the verdict, in capitals where it changed.
		probes, want string
	}{
		"one success":        {3, "+", "R"},
		"one failure":        {3, "-", "u"},
		"failures at first":  {3, "-----+", "uuuuuR"},
		"failures in a row":  {3, "+----", "RrrUu"},
		"none in a row":      {3, "+--+--+", "Rrrrrrr"},
		"ready again":        {2, "+--+-+--", "RrURrrrU"},
		"the first failure":  {1, "+-+-", "RURU"},
		"failed before once": {2, "-+-", "uRr"},
	} {
		t.Run(name, func(t *testing.T) {
			var v Verdict
			var got []byte
			for _, probe := range c.probes {
				var err error
				if probe == '-' {
					err = errors.New("connection refused")
				}
				changed := Patience{FailureThreshold: c.threshold}.Weigh(&v, err)
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
				t.Errorf("verdicts after %s are %s, want %s", c.probes, got, c.want)
			}
		})
	}
}
