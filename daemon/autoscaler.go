package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/drain"
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

	// mu guards what the scheduler and the pass under way both look at, and is held
	// while either gives a record to the recorder, so that the newer one counts.
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

// left is the count of a target after a pass. It is never changed.
type left struct {
	target   targets.Ref
	replicas int32
}

// publication is what readers see of an autoscaler after a pass. It is never
// changed.
type publication struct {
	// tick is the instant of the pass, zero before the first.
	tick   time.Time
	memory policy.Memory
	status policy.Status
	// restoration is what is still to be put back; nil when nothing is.
	restoration *restoration
	// decision is empty before the first pass: its Time is zero.
	decision policy.Decision
	// outcome is what became of its write.
	outcome   policy.Outcome
	instances api.Instances
	events    []api.Event
	// victims are those that the decision takes, as far as hpad chooses; unchosen is
	// why they could not be told.
	victims  []drain.Victim
	unchosen string
	// evaluated is when the pass began, on Go's monotonic clock; zero when there was
	// none in this run.
	evaluated time.Time
	duration  time.Duration
	// failed is what the pass itself failed with, and err that or why it could not
	// be written. Blind says that this is told of its fleet or sources.
	failed string
	err    string
	blind  bool
	// since is when what hinders the autoscaler began, zero when nothing does, and
	// untold are changes of it that the history does not have.
	since  time.Time
	untold trouble.Flapping
	// unevaluated says why the autoscaler could not be evaluated, as a panic;
	// empty when it was.
	unevaluated string
	quarantine  time.Time
}

// decided says whether there was a pass in this run.
func (p *publication) decided() bool { return !p.decision.Time.IsZero() }

// quarantined says whether the autoscaler is left alone at now.
func (p *publication) quarantined(now time.Time) bool { return now.Before(p.quarantine) }

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

// release gives the autoscaler back and says whether another pass was asked for
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
