package state

import (
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// replayed applies the passes up to the last completed round to a record with Replay.
func replayed(r Record, lastRound time.Time) Record {
	if r.Replay == nil || r.Replay.Period <= 0 || !lastRound.After(r.Through) {
		return r
	}
	period := int64(r.Replay.Period)
	first, last := floorTick(r.Through.UnixNano(), period)+period, floorTick(lastRound.UnixNano(), period)
	if first > last {
		return r
	}
	r.Memory.Recommendations = replay(r.Memory.Recommendations, r.Replay, first, last)
	r.Through = instant(last)
	return r
}

// floorTick returns the last multiple of the period at or before a time, both in nanoseconds.
func floorTick(at, period int64) int64 {
	past := at % period
	if past < 0 {
		past += period
	}
	return at - past
}

// replay returns the result of calling policy.Remember with the same count at each tick from
// first to last.
//
// After every entry has been overwritten once, the list repeats with the period turn. replay
// skips whole turns, so the work does not grow with the downtime.
func replay(list []policy.Recommendation, r *Replay, first, last int64) []policy.Recommendation {
	period, window := int64(r.Period), int64(longestWindow(r.Rules))
	turn := (max(window, 0)/period + 1) * period
	settled := first
	for _, given := range list {
		settled = max(settled, floorTick(given.Time.UnixNano()+window, period)+period)
	}
	settled += turn
	list = slices.Clone(list)
	for tick := first; tick <= last; tick += period {
		list = remember(list, r.Replicas, instant(tick), instant(tick-window))
		if tick != settled {
			continue
		}
		skip := (last - tick) / turn * turn
		for i := range list {
			if list[i].Time.After(instant(tick - turn)) {
				list[i].Time = list[i].Time.Add(time.Duration(skip))
			}
		}
		tick += skip
	}
	return list
}

// remember does the same as policy.Remember, but in place.
func remember(list []policy.Recommendation, replicas int32, now, cutoff time.Time) []policy.Recommendation {
	entry := policy.Recommendation{Replicas: replicas, Time: now}
	for i := range slices.Backward(list) {
		if list[i].Time.Before(cutoff) {
			list[i] = entry
			return list
		}
	}
	return append(list, entry)
}

// longestWindow returns the time during which an entry must not be overwritten (R55, R63).
func longestWindow(rules policy.WindowRules) time.Duration {
	if rules.Behavior {
		return max(rules.Up, rules.Down)
	}
	return rules.Down
}

func instant(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }

// WithoutFuture returns the snapshot with all times after now replaced by now. Otherwise, times
// from a wrong clock would block a rate limit, or fill a window, for a long time.
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
// the downtime, if the downtime is longer than longest. As a result, hpad does not assume that
// the metrics also failed during the downtime.
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

// pauseWithoutFuture returns the pause with the same duration and a start that is not after now.
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
