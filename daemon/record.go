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

// record decides what the store needs to know of a pass at now, nil when it
// knows already. The caller holds a.mu.
func (a *autoscaler) record(def *definition, recommendation *int32, wrote bool, now time.Time) *state.Record {
	var replay *state.Replay
	if recommendation != nil && !a.gap { // with a gap LastRound may be past now already, and those ticks were missed
		replay = &state.Replay{Replicas: *recommendation, Period: def.SyncPeriod, Rules: def.rules}
	}
	s := &a.saved
	expected := s.known && !wrote && !a.gap && s.intention == nil && a.intention == nil &&
		s.fingerprint == def.fingerprint &&
		now.Equal(nextTick(s.through, def.SyncPeriod)) &&
		sameReplay(s.replay, replay) && sameStatus(&s.status, &a.status) && s.left == a.left &&
		s.restoration == a.restoration && s.seen.same(a.seen) && s.doubts == a.doubts && s.bounds == a.bounds &&
		sameHindrance(s.hindrance, &a.hindrance)
	a.gap = false
	s.through = now
	if expected {
		return nil
	}
	if replay != nil {
		kept := *replay // on the heap only where it changed
		replay = &kept
	}
	s.known, s.replay, s.status = true, replay, a.status
	s.status.Metrics = nil // not compared, and not to be held
	s.left, s.restoration, s.seen, s.doubts = a.left, a.restoration, a.seen, a.doubts
	s.bounds, s.hindrance = a.bounds, hindranceRecord(&a.hindrance)
	s.intention, s.target, s.labels, s.fingerprint = a.intention, def.Target, def.Labels, def.fingerprint
	return a.recordAs(def, replay, now)
}

// intend notes a write that is about to be made and answers the record that says
// so, with the memory of the decision. The caller holds a.mu.
func (a *autoscaler) intend(def *definition, intention *state.Intention, memory policy.Memory) *state.Record {
	a.intention, a.intended = intention, def.Target
	s := &a.saved
	s.known, s.replay = true, nil
	s.intention, s.target, s.labels, s.fingerprint = intention, def.Target, def.Labels, def.fingerprint
	record := a.recordAs(def, nil, intention.Time)
	record.Memory = memory
	return record
}

// recordAs answers the record of the autoscaler as it is.
func (a *autoscaler) recordAs(def *definition, replay *state.Replay, through time.Time) *state.Record {
	return &state.Record{
		Created:     a.created,
		Memory:      a.memory,
		Status:      a.status,
		Through:     through,
		Replay:      replay,
		Intention:   a.intention,
		Left:        a.left.of(def.Target),
		Restore:     a.restoration.of(def.Target),
		Seen:        a.seen.of(def.Target),
		Doubts:      a.doubts,
		Bounds:      a.bounds,
		Hindrance:   hindranceRecord(&a.hindrance),
		Target:      def.Target,
		Labels:      def.Labels,
		Fingerprint: def.fingerprint,
	}
}

// missed notes that a tick passed by without a pass of its own, and sees to it
// that the store replays nothing for it: what the store gets instead is the pass
// before, as it was. The caller holds a.mu.
func (a *autoscaler) missed(store *recorder) {
	a.gap = true
	s := &a.saved
	if s.replay == nil || a.removed.Load() {
		return
	}
	s.replay = nil
	store.record(a.name, a.recordBefore(nil))
}

// recordBefore answers the record of the last pass that ended; the one under way
// is not in it. The caller holds a.mu.
func (a *autoscaler) recordBefore(replay *state.Replay) *state.Record {
	before, s := a.published.Load(), &a.saved
	return &state.Record{
		Created:     a.created,
		Memory:      before.memory,
		Status:      before.status,
		Through:     before.tick,
		Replay:      replay,
		Intention:   s.intention,
		Left:        s.left.of(s.target),
		Restore:     s.restoration.of(s.target),
		Seen:        s.seen.of(s.target),
		Doubts:      s.doubts,
		Bounds:      s.bounds,
		Hindrance:   s.hindrance,
		Target:      s.target,
		Labels:      s.labels,
		Fingerprint: s.fingerprint,
	}
}

// orphan answers what is kept of an autoscaler that is removed because its target
// is gone or asks for it no longer: the target may come back. It is nil for an
// autoscaler of the configuration, which a person removed. The caller holds a.mu.
func (a *autoscaler) orphan() *state.Record {
	if a.definition.Load().Labels == nil || a.published.Load().tick.IsZero() {
		return nil
	}
	record := a.recordBefore(nil)
	record.Labels = nil
	return record
}

// of answers the count that was left of a target, nil when it is not known.
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

// sameReasons compares what makes a decision worth an entry in the history, besides
// what hinders it.
func sameReasons(a, b *policy.Status) bool {
	return slices.EqualFunc(a.Conditions, b.Conditions, func(x, y policy.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Reason == y.Reason
	})
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
