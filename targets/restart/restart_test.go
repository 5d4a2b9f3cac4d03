package restart

import (
	"slices"
	"testing"
	"time"
)

// TestBackoff simulates an instance that fails immediately, and later after it has run for Reset,
// and compares its start times.
func TestBackoff(t *testing.T) {
	b := Backoff{First: 10 * time.Second, Longest: 5 * time.Minute, Reset: 10 * time.Minute}
	begun := time.Now()
	now := begun
	s := b.Failed(State{}, 0, now)
	var starts []time.Duration
	for len(starts) < 9 {
		now = now.Add(time.Second)
		if !s.Due(now) {
			continue
		}
		starts = append(starts, now.Sub(begun))
		s = b.Started(s, now)
		ran := time.Duration(0)
		if len(starts) == 8 {
			if ran = b.Reset; b.Recovered(s, now.Add(ran-1)) || !b.Recovered(s, now.Add(ran)) {
				t.Errorf("Recovered() = false after %v", ran)
			}
		}
		now = now.Add(ran)
		s = b.Failed(s, ran, now)
		if want := len(starts) % 8; s.Starts != want {
			t.Errorf("Starts after %d starts = %d, want %d", len(starts), s.Starts, want)
		}
	}
	want := []time.Duration{10, 30, 70, 150, 310, 610, 910, 1210, 1820} // s; the wait doubles, and is reset after Reset
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(starts, want) {
		t.Errorf("start times = %v, want %v", starts, want)
	}
	if !(State{}).Due(begun) {
		t.Error("Due() of the zero State = false")
	}
}
