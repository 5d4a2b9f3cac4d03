package daemon

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// follows reports whether a record of a pass is what the store makes of the one before
// by itself: loading replays an unchanged recommendation at the ticks up to the last
// completed round.
func follows(after, before *state.Record, period time.Duration) bool {
	return before.Intention == nil && after.Intention == nil && before.Fingerprint == after.Fingerprint &&
		after.Through.Equal(nextTick(before.Through, period)) &&
		same(before.Replay, after.Replay) && sameStatus(&before.Status, &after.Status) &&
		same(before.Left, after.Left) && same(before.Restore, after.Restore) &&
		same(before.Seen, after.Seen) && before.Doubts == after.Doubts && same(before.Bounds, after.Bounds) &&
		sameHindrance(before.Hindrance, after.Hindrance) && before.Memory.SameMissing(&after.Memory)
}

// same reports whether two values are the same, or both missing.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || *a == *b
}

// keep returns a pointer to a value: the one before where that has the same.
func keep[T comparable](before *T, value T) *T {
	if before != nil && *before == value {
		return before
	}
	kept := value // on the heap only where it changed
	return &kept
}

// sameStatus compares what has to survive a restart. Readings that fluctuate
// (the metrics' values, and messages that quote them) are not written for their
// own sake.
func sameStatus(a, b *policy.Status) bool {
	return a.DesiredReplicas == b.DesiredReplicas &&
		a.LastScaleTime.Equal(b.LastScaleTime) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Since.Equal(y.Since)
		})
}

// sameHindrance compares what is wrong.
func sameHindrance(a, b *state.Hindrance) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cause == b.Cause && a.Since.Equal(b.Since)
}

// hindranceRecord returns what the store keeps of what is wrong; nil while nothing is.
func hindranceRecord(f trouble.Follower) *state.Hindrance {
	if f.Cause() == "" {
		return nil
	}
	return &state.Hindrance{Cause: f.Cause(), Since: f.Since()}
}

// leave keeps the count that a pass leaves, as far as it is known.
func leave(record *state.Record, decision *policy.Decision, outcome policy.Outcome) {
	switch {
	case outcome.Kind == policy.Written:
		record.Left = keep(record.Left, outcome.Reached)
	case record.Intention != nil: // the next reading says
		record.Left = nil
	case decision.Case != policy.CaseUnreadable:
		record.Left = keep(record.Left, decision.CurrentReplicas)
	}
}

// wanted returns the lowest count that hpad may have left the target with since it was
// before.
func wanted(record *state.Record, before int32) int32 {
	switch {
	case record.Intention != nil:
		return min(record.Intention.From, record.Intention.To)
	case record.Left != nil:
		return *record.Left
	}
	return before
}
