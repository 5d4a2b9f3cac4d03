package daemon

import (
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// saved is what the store has been given of an autoscaler, by this run or an
// earlier one, as far as it tells whether a pass has to be written. An unchanged
// recommendation is not: loading replays it at the ticks up to the last completed
// round.
type saved struct {
	// known is false until the first record of this run.
	known bool
	// through is the last pass that the store knows or will replay.
	through time.Time
	replay  *state.Replay
	status  policy.Status
	left    *left
	// restoration is what the record says is to be put back; nil when nothing is.
	restoration *restoration
	seen        *counts
	doubts      int32
	// bounds and hindrance are never changed.
	bounds    *state.Bounds
	hindrance *state.Hindrance
	// intention is the one that the record holds; nil when there is none.
	intention   *state.Intention
	target      targets.Ref
	labels      map[string]string
	fingerprint string
}

// left is the count of a target after a pass. It is never changed.
type left struct {
	target   targets.Ref
	replicas int32
}

// of returns the count that was left of a target, nil when it is not known.
func (l *left) of(target targets.Ref) *int32 {
	if l == nil || l.target != target {
		return nil
	}
	return &l.replicas
}

func sameReplay(a, b *state.Replay) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
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

// sameHindrance reports whether the record has what is wrong now.
func sameHindrance(saved *state.Hindrance, now *trouble.Follower) bool {
	if saved == nil {
		return now.Cause == ""
	}
	return saved.Cause == now.Cause && saved.Since.Equal(now.Since)
}

// hindranceRecord returns what the store keeps of what is wrong; nil while nothing is.
func hindranceRecord(f *trouble.Follower) *state.Hindrance {
	if f.Cause == "" {
		return nil
	}
	return &state.Hindrance{Cause: f.Cause, Since: f.Since}
}

// knownHindrance returns the follower of what the store kept, which was told.
func knownHindrance(kept *state.Hindrance) trouble.Follower {
	if kept == nil {
		return trouble.Follower{}
	}
	return trouble.Known(kept.Cause, kept.Since)
}
