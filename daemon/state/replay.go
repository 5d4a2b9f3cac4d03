package state

import (
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
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

// replay returns the result of policy.Remember, called with the same count at each tick from
// first to last.
//
// After every entry has been overwritten once, the list repeats with period turn. Whole turns
// are then skipped, so the work does not grow with the downtime.
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

// remember is policy.Remember in place.
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

// longestWindow is how long an entry is protected from being overwritten (R55, R63).
func longestWindow(rules policy.WindowRules) time.Duration {
	if rules.Behavior {
		return max(rules.Up, rules.Down)
	}
	return rules.Down
}

func instant(nanoseconds int64) time.Time { return time.Unix(0, nanoseconds).UTC() }
