package state

import (
	"slices"
	"sort"
	"time"

	"github.com/hpad/hpad/policy"
)

// replayed brings a record up to the last completed round: Memory is as it
// would be had every pass in between been written, and Through is the last of
// them. A record without Replay is answered as it is.
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
	r.Through = time.Unix(0, last).UTC()
	return r
}

// floorTick answers the last tick of a period at or before a time. Both are in
// nanoseconds, and ticks are multiples of the period since the Unix epoch.
func floorTick(at, period int64) int64 {
	past := at % period
	if past < 0 {
		past += period
	}
	return at - past
}

// replay answers what policy.Remember makes of the list when called with the
// replay's count at each tick from first to last.
//
// Remember overwrites the old entry that stands last in the list, old meaning
// older than the longest window, and appends where there is none. So slots go
// round between two sets: those not old yet, which get old in the order of their
// times, and the old ones, of which the last in the list is taken. A slot gets
// old again turn ticks after it was written. Once every entry of the given list
// has got old, and every slot that was in use then has been through the old set
// once, the old set holds the slots that stand first and keeps them: what gets
// old is taken at once, and turn ticks later the list is the same with later
// times. Whole turns are therefore skipped, and the work does not grow with the
// time that passed.
func replay(list []policy.Recommendation, r *Replay, first, last int64) []policy.Recommendation {
	period, window := int64(r.Period), int64(longestWindow(r.Rules))
	turn := max(window, 0)/period + 1
	state := newReplaying(list, window)
	settled := int64(-1) // the tick from which on the list only turns
	for tick := first; tick <= last; tick += period {
		state.remember(r.Replicas, tick)
		if settled < 0 && len(state.given) == 0 {
			settled = tick + turn*period
		}
		if tick == settled {
			skip := (last - tick) / (turn * period) * turn * period
			state.shift(skip)
			tick += skip
		}
	}
	return state.list
}

// longestWindow is how long an entry of the list is kept from being overwritten
// (R55, R63).
func longestWindow(rules policy.WindowRules) time.Duration {
	if rules.Behavior {
		return max(rules.Up, rules.Down)
	}
	return rules.Down
}

// replaying is a recommendation list with its slots sorted by what may become
// of them.
type replaying struct {
	list   []policy.Recommendation
	window int64
	// given are the slots of the original entries that are not old yet, the
	// earliest time last.
	given []int
	// written are the slots written since that are not old yet, earliest first.
	written []slot
	// old are the slots that may be overwritten, in order.
	old []int
}

// slot is a place in the list and the time it was written at, in nanoseconds.
type slot struct {
	index int
	at    int64
}

func newReplaying(list []policy.Recommendation, window int64) *replaying {
	s := &replaying{list: slices.Clone(list), window: window, given: make([]int, len(list))}
	for i := range s.given {
		s.given[i] = i
	}
	slices.SortStableFunc(s.given, func(a, b int) int { return list[b].Time.Compare(list[a].Time) })
	return s
}

// remember does what policy.Remember does, in place.
func (s *replaying) remember(replicas int32, now int64) {
	cutoff := now - s.window
	for len(s.given) > 0 && s.list[s.given[len(s.given)-1]].Time.Before(time.Unix(0, cutoff)) {
		s.age(s.given[len(s.given)-1])
		s.given = s.given[:len(s.given)-1]
	}
	for len(s.written) > 0 && s.written[0].at < cutoff {
		s.age(s.written[0].index)
		s.written = s.written[1:]
	}
	index := len(s.list)
	if last := len(s.old) - 1; last >= 0 {
		index = s.old[last]
		s.old = s.old[:last]
	} else {
		s.list = append(s.list, policy.Recommendation{})
	}
	s.list[index] = policy.Recommendation{Replicas: replicas, Time: time.Unix(0, now).UTC()}
	s.written = append(s.written, slot{index: index, at: now})
}

// age puts a slot among the old ones.
func (s *replaying) age(index int) {
	at := sort.SearchInts(s.old, index)
	s.old = slices.Insert(s.old, at, index)
}

// shift makes everything that was written later by d nanoseconds.
func (s *replaying) shift(d int64) {
	for i := range s.written {
		w := &s.written[i]
		w.at += d
		s.list[w.index].Time = time.Unix(0, w.at).UTC()
	}
}
