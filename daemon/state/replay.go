package state

import (
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/clock"
)

// replayed applies the passes up to the last completed round to a record with Replay. Once each
// entry has been overwritten, the list repeats, so replayed skips whole repetitions. The work
// therefore does not grow with the number of passes.
func replayed(r Record, lastRound time.Time) Record {
	if r.Replay == nil || r.Replay.Period <= 0 || !lastRound.After(r.Through) {
		return r
	}
	period, rules := r.Replay.Period, r.Replay.Rules
	window := max(rules.Down, 0)
	if rules.Behavior {
		window = max(rules.Up, window)
	}
	repetition := (window/period + 1) * period
	last, repeats, list := floorTick(lastRound, period), r.Through, r.Memory.Recommendations
	for i := range list {
		repeats = clock.Later(repeats, list[i].Time)
	}
	repeats = repeats.Add(window + repetition)
	for tick := floorTick(r.Through, period).Add(period); !tick.After(last); tick = tick.Add(period) {
		list = policy.Remember(rules, list, policy.Recommendation{Replicas: r.Replay.Replicas, Held: r.Replay.Held, Time: tick})
		if tick.After(repeats) {
			skip := last.Sub(tick) / repetition * repetition
			for i := range list {
				if list[i].Time.After(tick.Add(-repetition)) {
					list[i].Time = list[i].Time.Add(skip)
				}
			}
			tick, repeats = tick.Add(skip), last
		}
		r.Through = tick
	}
	r.Memory.Recommendations = list
	return r
}

// floorTick rounds a time down to a multiple of the period since the Unix epoch.
func floorTick(at time.Time, period time.Duration) time.Time {
	past := at.UnixNano() % int64(period)
	if past < 0 {
		past += int64(period)
	}
	return at.Add(-time.Duration(past)).UTC()
}

// WithoutFuture returns the snapshot with all times after now replaced by now. Otherwise, times
// from an incorrect clock would block a rate limit, or fill a window, for a long time.
func (s Snapshot) WithoutFuture(now time.Time) Snapshot {
	s.LastRound = notAfter(s.LastRound, now)
	records := make(map[string]Record, len(s.Autoscalers))
	for name, record := range s.Autoscalers {
		records[name] = clock.Shift(record, func(t time.Time) time.Time { return notAfter(t, now) })
	}
	s.Autoscalers = records
	s.Pauses = slices.Clone(s.Pauses)
	for i := range s.Pauses {
		s.Pauses[i] = pauseWithoutFuture(s.Pauses[i], now)
	}
	removals := make(map[string]Removals, len(s.Removals))
	for fleet, r := range s.Removals {
		removals[fleet] = clock.Shift(r, func(t time.Time) time.Time { return notAfter(t, now) })
	}
	s.Removals = removals
	return s
}

// WithoutDowntime returns the snapshot with the first failure times of metrics and the start times
// of outages moved forward by the downtime, if the downtime is longer than longest. As a result,
// hpad does not assume that the failures also lasted during the downtime.
func (s Snapshot) WithoutDowntime(now time.Time, longest time.Duration) Snapshot {
	down := now.Sub(s.LastRound)
	if s.LastRound.IsZero() || down <= longest {
		return s
	}
	s.Autoscalers = maps.Clone(s.Autoscalers)
	for name, record := range s.Autoscalers {
		if since := &record.Memory.NoReadySince; !since.IsZero() {
			*since = notAfter(since.Add(down), now)
		}
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
