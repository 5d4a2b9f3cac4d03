package systemd

import (
	"strings"
	"testing"
	"time"
)

// TestStartLimitIsSteady checks that the interval until the next allowed start is measured with
// the monotonic clock, starting no later than now, so that a step of the wall clock does not
// change it.
func TestStartLimitIsSteady(t *testing.T) {
	const interval = time.Minute
	now := time.Now()
	for by, want := range map[time.Duration]time.Duration{-20 * time.Second: interval - 20*time.Second, time.Hour: interval} {
		d := parseDetails(map[string]any{
			"Result": startLimitHit, "StartLimitIntervalUSec": uint64(interval.Microseconds()),
			"StateChangeTimestamp": uint64(now.Add(by).UnixMicro()),
		}, now)
		if !d.limited || !strings.Contains(d.allowed.String(), " m=") || d.allowed.Sub(now).Round(time.Millisecond) != want {
			t.Errorf("changed %v from now, it may be started %v from now, at %v; want %v, by the monotonic clock", by, d.allowed.Sub(now), d.allowed, want)
		}
	}
}
