package state

import (
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// WithoutFuture returns the snapshot with all times that are later than now replaced by now.
// Otherwise a wrong clock would block a rate, or fill a window, for a long time.
func (s Snapshot) WithoutFuture(now time.Time) Snapshot {
	s.LastRound = notAfter(s.LastRound, now)
	records := make(map[string]Record, len(s.Autoscalers))
	for name, record := range s.Autoscalers {
		records[name] = clock.Moved(record, func(t time.Time) time.Time { return notAfter(t, now) })
	}
	s.Autoscalers = records
	s.Pauses = slices.Clone(s.Pauses)
	for i := range s.Pauses {
		s.Pauses[i] = pauseWithoutFuture(s.Pauses[i], now)
	}
	removals := make(map[string]Removals, len(s.Removals))
	for fleet, r := range s.Removals {
		removals[fleet] = clock.Moved(r, func(t time.Time) time.Time { return notAfter(t, now) })
	}
	s.Removals = removals
	return s
}

// WithoutDowntime returns the snapshot with the first failure times of metrics moved forward by
// the downtime, if that is longer than longest: only observed failures count.
func (s Snapshot) WithoutDowntime(now time.Time, longest time.Duration) Snapshot {
	down := now.Sub(s.LastRound)
	if s.LastRound.IsZero() || down <= longest {
		return s
	}
	s.Autoscalers = maps.Clone(s.Autoscalers)
	for name, record := range s.Autoscalers {
		record.Memory.Missing = slices.Clone(record.Memory.Missing)
		for i := range record.Memory.Missing {
			if first := &record.Memory.Missing[i].FirstFailureTime; !first.IsZero() {
				*first = notAfter(first.Add(down), now)
			}
		}
		s.Autoscalers[name] = record
	}
	return s
}

// pauseWithoutFuture returns the pause with a start of now at the latest and the same duration.
func pauseWithoutFuture(pause policy.Pause, now time.Time) policy.Pause {
	ahead := pause.Since.Sub(now)
	if ahead <= 0 {
		return pause
	}
	pause.Since = now
	if !pause.Until.IsZero() {
		pause.Until = pause.Until.Add(-ahead)
	}
	return pause
}

func notAfter(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}
