package records

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
)

// Follows reports whether the store derives the record after a pass from the record before it:
// loading replays an unchanged recommendation at the ticks up to the last completed round.
func Follows(after, before *state.Record, period time.Duration) bool {
	return before.Intention == nil && after.Intention == nil && before.Fingerprint == after.Fingerprint &&
		after.Through.Equal(ticks.Next(before.Through, period)) &&
		same(before.Replay, after.Replay) && sameStatus(&before.Status, &after.Status) &&
		same(before.Left, after.Left) && same(before.Restore, after.Restore) &&
		same(before.Seen, after.Seen) && before.Doubts == after.Doubts && same(before.Bounds, after.Bounds) &&
		SameHindrance(before.Hindrance, after.Hindrance) && before.Memory.SameMissing(&after.Memory)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || *a == *b
}

// Keep returns a pointer to a value: before, if it has the same value.
func Keep[T comparable](before *T, value T) *T {
	if before != nil && *before == value {
		return before
	}
	next := value // allocated only if it changed
	return &next
}

// sameStatus ignores metric values, and messages that quote them: their changes are not worth a
// write.
func sameStatus(a, b *policy.Status) bool {
	return a.DesiredReplicas == b.DesiredReplicas &&
		a.LastScaleTime.Equal(b.LastScaleTime) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Since.Equal(y.Since)
		})
}

// SameHindrance compares two problems; nil is no problem.
func SameHindrance(a, b *state.Hindrance) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cause == b.Cause && a.Since.Equal(b.Since)
}

// HindranceOf returns the stored form of a problem; nil if there is none.
func HindranceOf(f problem.Deduper) *state.Hindrance {
	if f.Cause() == "" {
		return nil
	}
	return &state.Hindrance{Cause: f.Cause(), Since: f.Since()}
}

// SetLeft sets the count after a pass; nil while it is unknown.
func SetLeft(record *state.Record, decision *policy.Decision, outcome policy.Outcome) {
	switch {
	case outcome.Kind == policy.Written:
		record.Left = Keep(record.Left, outcome.Reached)
	case record.Intention != nil: // the next reading shows it
		record.Left = nil
	case decision.Case != policy.CaseUnreadable:
		record.Left = Keep(record.Left, decision.CurrentReplicas)
	}
}

// LowestCount returns the lowest count that hpad may have written since the count was before.
func LowestCount(record *state.Record, before int32) int32 {
	switch {
	case record.Intention != nil:
		return min(record.Intention.From, record.Intention.To)
	case record.Left != nil:
		return *record.Left
	}
	return before
}
