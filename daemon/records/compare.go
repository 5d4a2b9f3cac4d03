package records

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
)

// Follows reports whether the store can derive the record after a pass from the record before it,
// so that the record need not be written. When the store loads a record, it repeats an unchanged
// recommendation at each tick up to the last completed round.
func Follows(after, before *state.Record, period time.Duration) bool {
	return before.Intention == nil && after.Intention == nil && before.Fingerprint == after.Fingerprint && before.Digest == after.Digest &&
		after.Through.Equal(ticks.Next(before.Through, period)) &&
		same(before.Replay, after.Replay) && sameStatus(&before.Status, &after.Status) &&
		same(before.ExpectedReplicas, after.ExpectedReplicas) && same(before.Restore, after.Restore) &&
		same(before.LastCounts, after.LastCounts) && before.ImplausibleReadings == after.ImplausibleReadings && same(before.Bounds, after.Bounds) &&
		before.NeverStarted == after.NeverStarted &&
		SameObstacle(before.Obstacle, after.Obstacle) && before.Memory.SameMissing(&after.Memory) &&
		before.Memory.NoReadySince.Equal(after.Memory.NoReadySince) && before.Memory.Stopped == after.Memory.Stopped
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || *a == *b
}

// Keep returns before if it points to a value equal to value, and otherwise a new pointer to value.
func Keep[T comparable](before *T, value T) *T {
	if before != nil && *before == value {
		return before
	}
	next := value // allocated only if it changed
	return &next
}

// sameStatus ignores metric values and messages that contain them, because changes to them do not
// justify a write.
func sameStatus(a, b *policy.Status) bool {
	return a.DesiredReplicas == b.DesiredReplicas &&
		a.LastScaleTime.Equal(b.LastScaleTime) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
			return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason && x.Since.Equal(y.Since)
		})
}

// SameObstacle reports whether two problems are equal. Nil means no problem.
func SameObstacle(a, b *state.Obstacle) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cause == b.Cause && a.Since.Equal(b.Since)
}

// ObstacleOf returns the stored form of a problem, or nil if there is no problem.
func ObstacleOf(f problem.Deduper) *state.Obstacle {
	if f.Cause() == "" {
		return nil
	}
	return &state.Obstacle{Cause: f.Cause(), Since: f.Since()}
}

// SetExpectedReplicas sets record.ExpectedReplicas to the count after a pass, or to nil while the
// count is unknown.
func SetExpectedReplicas(record *state.Record, decision *policy.Decision, outcome policy.Outcome) {
	switch {
	case outcome.Kind == policy.Written:
		record.ExpectedReplicas = Keep(record.ExpectedReplicas, outcome.Reached)
	case record.Intention != nil: // the next reading reveals the count
		record.ExpectedReplicas = nil
	case decision.Case != policy.CaseUnreadable:
		record.ExpectedReplicas = Keep(record.ExpectedReplicas, decision.CurrentReplicas)
	}
}

// LowestCount returns the lowest count that the target can have because of hpad's last write. If
// the record contains no count, it returns the argument before.
func LowestCount(record *state.Record, before int32) int32 {
	switch {
	case record.Intention != nil:
		return min(record.Intention.From, record.Intention.To)
	case record.ExpectedReplicas != nil:
		return *record.ExpectedReplicas
	}
	return before
}
