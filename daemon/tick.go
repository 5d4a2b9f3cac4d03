package daemon

import "time"

// nextTick returns the first multiple of period since the epoch after t.
func nextTick(t time.Time, period time.Duration) time.Time {
	return lastTick(t, period).Add(period)
}

// lastTick returns the last multiple of period since the epoch not after t.
func lastTick(t time.Time, period time.Duration) time.Time {
	since := t.UnixNano() % int64(period)
	if since < 0 {
		since += int64(period)
	}
	return time.Unix(0, t.UnixNano()-since).UTC()
}
