package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// autoscaler is one autoscaler at run time. It outlives reloads; its definition
// does not.
type autoscaler struct {
	name    string
	created time.Time
	// added is since when this run has it, on Go's monotonic clock.
	added      time.Time
	definition atomic.Pointer[definition]
	metrics    *metrics.Autoscaler
	// published is what readers see: replaced whole, never changed.
	published atomic.Pointer[publication]
	// cpuUse is what each instance used at the last reading, in thousandths of a
	// core by id, where victims are chosen by it; nil before the first.
	cpuUse atomic.Pointer[map[string]int64]
	// late counts ticks at which a pass was still running.
	late atomic.Uint64
	// removed is set, with mu held, when a reload takes the autoscaler away: from
	// then on the store is told nothing of it.
	removed atomic.Bool

	// mu guards what the scheduler and the pass under way both look at; only this
	// file's methods lock it. It is held while either gives a record to the recorder, so
	// that the newer one counts.
	mu sync.Mutex
	// busy is set while a pass is under way, and since is its tick.
	busy  bool
	since time.Time
	// again asks for another pass as soon as the one under way ends.
	again bool
	// saved tells what the store has been given.
	saved saved
	// gap is set when a tick passed by while a pass was under way.
	gap bool

	// The pass under way owns the rest.
	memory    policy.Memory
	status    policy.Status
	intention *state.Intention
	// intended is the target that the intention is about.
	intended targets.Ref
	// left is the count that the last pass left; nil when it is not known.
	left *left
	// restoration is what is to be put back after somebody else changed the count;
	// nil when nothing is.
	restoration *restoration
	// seen are the counts of the last reading that was believed, nil when none is
	// known, and doubts how many readings in a row were not believed since.
	seen   *counts
	doubts int32
	// retried says that the last pass lost its write to somebody else and the
	// autoscaler was evaluated again at once for it.
	retried bool
	// panics counts panics in a row.
	panics int
	// dates are those of the instances at the last reading, where they are kept.
	dates dates
	// stepsTold is how many steps of the wall clock are among the events.
	stepsTold uint64
	events    eventLog
	// unsure says that the last pass did not know whether the source was out that
	// failed.
	unsure bool
	// panicked says that a pass did, and none has gone well since.
	panicked bool
	// hindrance follows what is wrong, for the history, failing why passes fail, for
	// the log.
	hindrance, failing trouble.Follower
	// bounds are min and max of the last pass; nil when they are not known.
	bounds *state.Bounds
}

// pardon ends a quarantine: what led to it may have been changed.
func (a *autoscaler) pardon() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if published := *a.published.Load(); !published.quarantine.IsZero() {
		published.quarantine = time.Time{}
		a.published.Store(&published)
	}
}

// newAutoscaler makes an autoscaler from its definition and what the store
// knows of it; record is nil for a new one.
func newAutoscaler(def *definition, record *state.Record, m *metrics.Autoscaler, now time.Time) *autoscaler {
	a := &autoscaler{name: def.Name, created: now, added: time.Now(), metrics: m}
	a.definition.Store(def)
	published := &publication{}
	if record != nil {
		a.created = record.Created
		a.memory, a.status = record.Memory, record.Status
		a.intention, a.intended = record.Intention, record.Target
		if record.Left != nil {
			a.left = &left{target: record.Target, replicas: *record.Left}
		}
		if record.Restore != nil {
			a.restoration = &restoration{target: record.Target, Restoration: *record.Restore}
		}
		if record.Seen != nil {
			a.seen = &counts{target: record.Target, Counts: *record.Seen}
		}
		a.doubts, a.bounds = record.Doubts, record.Bounds
		a.hindrance = knownHindrance(record.Hindrance)
		published.tick, published.memory, published.status = record.Through, record.Memory, record.Status
		published.restoration = a.restoration
		a.saved = saved{
			restoration: a.restoration, seen: a.seen, doubts: a.doubts, bounds: a.bounds, hindrance: record.Hindrance,
			through: record.Through, replay: record.Replay, status: record.Status,
			intention: record.Intention, target: record.Target, labels: record.Labels, fingerprint: record.Fingerprint,
		}
	}
	a.published.Store(published)
	return a
}

// begin takes the autoscaler for a pass at now. It is false when one is under
// way; another one then follows if again says so.
func (a *autoscaler) begin(now time.Time, again bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		a.again = a.again || again
		return false
	}
	a.busy, a.since = true, now
	return true
}

// release gives the autoscaler back and reports whether another pass was asked for
// meanwhile.
func (a *autoscaler) release() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
	again, a.again = a.again, false
	return again
}

// askAgain asks for another pass after the one under way.
func (a *autoscaler) askAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again = true
}

// record returns what the store needs to know of a pass at now, nil when it knows
// already. It is for publish.
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

// intend has a write that is about to be made committed, with the memory of the
// decision; nil when the autoscaler was removed.
func (a *autoscaler) intend(to *recorder, def *definition, intention *state.Intention, memory policy.Memory) *commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil
	}
	a.intention, a.intended = intention, def.Target
	s := &a.saved
	s.known, s.replay = true, nil
	s.intention, s.target, s.labels, s.fingerprint = intention, def.Target, def.Labels, def.fingerprint
	record := a.recordAs(def, nil, intention.Time)
	record.Memory = memory
	return to.record(a.name, record)
}

// publish shows readers what a pass found, and has recorded what the store does not
// know, which may be nothing, and then there is no commit. Both are one step: a tick
// that goes by meanwhile has the pass before recorded, as readers saw it. It is false
// when the autoscaler was removed.
func (a *autoscaler) publish(to *recorder, def *definition, after *publication, recommendation *int32, entries []state.Entry) (*commit, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil, false
	}
	a.published.Store(after)
	record := a.record(def, recommendation, after.outcome.Kind == policy.Written, after.tick)
	if record == nil && entries == nil {
		return nil, true
	}
	return to.record(a.name, record, entries...), true
}

// publishPanic shows readers that a pass panicked; the store has the pass before.
func (a *autoscaler) publishPanic(to *recorder, after *publication) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.published.Store(after)
	a.missedLocked(to)
}

// recordAs returns the record of the autoscaler as it is.
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

// missed has the store replay nothing for a tick that passed by without a pass of its
// own: what it gets instead is the pass before, as it was.
func (a *autoscaler) missed(to *recorder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.missedLocked(to)
}

// missedAt is missed where the pass of a tick is still under way.
func (a *autoscaler) missedAt(to *recorder, tick time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy && a.since.Equal(tick) {
		a.missedLocked(to)
	}
}

func (a *autoscaler) missedLocked(to *recorder) {
	a.gap = true
	s := &a.saved
	if s.replay == nil || a.removed.Load() {
		return
	}
	s.replay = nil
	to.record(a.name, a.recordBefore(nil))
}

// keepUnfinished has the last pass recorded where the store was to replay it once its
// round had completed, which a stop prevents.
func (a *autoscaler) keepUnfinished(to *recorder, completed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.saved.known && a.saved.replay != nil && a.saved.through.After(completed) {
		to.record(a.name, a.recordBefore(a.saved.replay))
	}
}

// remove takes the autoscaler away. What is kept of one whose target is gone, or asks
// for it no longer, is its record: the target may come back. It is nil for one of the
// configuration, which a person removed.
func (a *autoscaler) remove(to *recorder) (orphan *state.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removed.Store(true)
	if a.definition.Load().Labels == nil || a.published.Load().tick.IsZero() {
		to.remove(a.name)
		return nil
	}
	orphan = a.recordBefore(nil)
	orphan.Labels = nil
	to.record(a.name, orphan)
	return orphan
}

// recordBefore returns the record of the last pass that ended; the one under way is
// not in it.
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

// leave keeps the count that a pass leaves, as far as it is known.
func (a *autoscaler) leave(def *definition, decision *policy.Decision, outcome policy.Outcome) {
	switch {
	case outcome.Kind == policy.Written:
		a.left = &left{target: def.Target, replicas: outcome.Reached}
	case a.intention != nil: // the next reading tells
		a.left = nil
	case decision.Case != policy.CaseUnreadable && (a.left == nil || a.left.replicas != decision.CurrentReplicas || a.left.target != def.Target):
		a.left = &left{target: def.Target, replicas: decision.CurrentReplicas}
	}
}

// wanted is the lowest count that hpad may have left the target with since it was
// before.
func (a *autoscaler) wanted(target targets.Ref, before int32) int32 {
	switch {
	case a.intention != nil && a.intended == target:
		return min(a.intention.From, a.intention.To)
	case a.left != nil && a.left.target == target:
		return a.left.replicas
	}
	return before
}

// roster is the autoscalers that are due together, with what defined them when it was
// made, and the plan of what they read.
type roster struct {
	plan        *plan
	autoscalers []*autoscaler
	definitions []*definition
}

func newRoster(autoscalers []*autoscaler) *roster {
	r := &roster{autoscalers: autoscalers, definitions: make([]*definition, len(autoscalers))}
	needs := make([]need, len(autoscalers))
	for i, a := range autoscalers {
		r.definitions[i] = a.definition.Load()
		needs[i] = r.definitions[i].need()
	}
	r.plan = newPlan(needs)
	return r
}

// need returns what a pass of the definition reads.
func (d *definition) need() need {
	n := need{
		fleet: d.fleet, target: d.Target, samples: d.needsSamples(), labeled: d.Labels != nil,
		timeout: readTimeout(d.SyncPeriod), queries: make([]queryNeed, len(d.inputs)),
	}
	for i, in := range d.inputs {
		n.queries[i] = queryNeed{source: in.source, text: in.Query, labels: in.Labels}
	}
	return n
}
