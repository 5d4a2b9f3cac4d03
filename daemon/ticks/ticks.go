// Package ticks computes the ticks of a sync period: its multiples since the epoch.
package ticks

import "time"

// Next returns the first multiple of period since the epoch after t.
func Next(t time.Time, period time.Duration) time.Time {
	return Last(t, period).Add(period)
}

// Last returns the last multiple of period since the epoch at or before t.
func Last(t time.Time, period time.Duration) time.Time {
	since := t.UnixNano() % int64(period)
	if since < 0 {
		since += int64(period)
	}
	return time.Unix(0, t.UnixNano()-since).UTC()
}
