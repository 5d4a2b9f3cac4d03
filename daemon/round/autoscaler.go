package round

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/records"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/ticks"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// Autoscaler is a running autoscaler. Unlike its definition, it survives reloads.
type Autoscaler struct {
	Name string
	// added is the time when the autoscaler was added in this run, on Go's monotonic clock.
	added      time.Time
	definition atomic.Pointer[Definition]
	metrics    *metrics.Autoscaler
	// published points to the last result. The result is immutable. The pointer is replaced while
	// mu is held.
	published atomic.Pointer[Result]
	// repetition is the last pass that repeated the published result; it does not apply if it is nil or
	// belongs to another result. The pointer is replaced while mu is held.
	repetition atomic.Pointer[repetition]
	// cpuUse maps instance IDs to their last CPU use in thousandths of a core. It is nil before the
	// first reading, or if instances are not removed by CPU use.
	cpuUse atomic.Pointer[map[string]int64]
	// dates contains the start and readiness times of the instances in the last reading. It is nil
	// before the first reading, or if no metric uses these times.
	dates atomic.Pointer[dates]
	// removingTo is the count that the active pass writes, if the write removes instances and the
	// fleet has a breaker; otherwise nil.
	removingTo atomic.Pointer[int32]
	// reading is the last reading that the guard accepted, or nil. It is stored only if the target
	// has endpoints or followed is set.
	reading  atomic.Pointer[accepted]
	followed atomic.Bool
	// Late counts the ticks during which a pass was still active.
	Late atomic.Uint64
	// removed is set, while mu is held, when a reload removes the autoscaler. A removed autoscaler
	// is no longer recorded.
	removed atomic.Bool

	// mu protects the data that the scheduler and the active pass share. Both lock it while they
	// record, so that a newer record is never overwritten by an older one.
	mu sync.Mutex
	// busy is set during a pass. since is the instant of that pass.
	busy  bool
	since time.Time
	// again requests another pass after the active one.
	again bool
	// recorded is set once this run has recorded the autoscaler.
	recorded bool
	// gap is set if a tick passed without an evaluation after the last published pass.
	gap bool
	// request is a user's request that no pass has taken yet, or nil.
	request *scaleRequest
	// addedEvents contains the events of AddEvent that no pass has taken yet.
	addedEvents []policy.Event

	// The remaining fields are owned by the active pass, or by the scheduler between passes.

	// known is the time of the latest information about the target: the start of the last read, or
	// the end of a later write. It uses Go's monotonic clock and is zero before the first read.
	known     time.Time
	following following
	// steady is the result that the next pass may repeat, or nil.
	steady *steady
	// lastPoint is the time of the last data point, in Unix seconds.
	lastPoint int64
}

// Definition returns the active definition.
func (a *Autoscaler) Definition() *Definition { return a.definition.Load() }

// Redefine replaces the definition and returns the earlier one.
func (a *Autoscaler) Redefine(def *Definition) *Definition { return a.definition.Swap(def) }

// accepted is a reading of a target that the guard accepted.
type accepted struct {
	target  targets.Ref
	reading *targets.Reading
}

// Reading returns the last accepted reading of a target. For a target without endpoints, the first
// call enables the storage of readings, so the result is nil until the next pass ends. It is also
// nil if the autoscaler's target has changed.
func (a *Autoscaler) Reading(target targets.Ref) *targets.Reading {
	a.followed.Store(true)
	if last := a.reading.Load(); last != nil && last.target == target {
		return last.reading
	}
	return nil
}

// NewAutoscaler returns an autoscaler with its stored record, which is nil for a new autoscaler. The
// argument lost reports whether the record may have been lost, so that a count of 0 may be manual.
func (e *Env) NewAutoscaler(def *Definition, record *state.Record, lost bool) *Autoscaler {
	a := &Autoscaler{Name: def.Name, added: time.Now(), metrics: e.Metrics.Autoscaler(def.Name)}
	a.definition.Store(def)
	published := &Result{Record: state.Record{Created: e.Clock.Now(), NeverStarted: !lost}}
	if record != nil {
		published.Record = *record
		if record.Obstacle != nil {
			a.following.obstacle = problem.Restored(record.Obstacle.Cause, record.Obstacle.Since)
		}
	}
	a.published.Store(published)
	return a
}

// DueAtOnce reports whether an autoscaler that was not running must be evaluated before its next
// tick. That is the case if it is new or changed (R23), if it missed a tick since the last
// completed round, or if the outcome of a write is unknown.
func (a *Autoscaler) DueAtOnce(lastRound, now time.Time) bool {
	def, record := a.definition.Load(), &a.Last().Record
	if record.Fingerprint != def.Fingerprint || record.Intention != nil {
		return true
	}
	last := lastRound
	if record.Through.After(last) {
		last = record.Through
	}
	return !now.Before(ticks.Next(last, def.SyncPeriod))
}

// begin starts a pass at now. It returns false if a pass is already active. If again is set, a new
// pass follows the active pass.
func (a *Autoscaler) begin(now time.Time, again bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy {
		a.again = a.again || again
		return false
	}
	a.busy, a.since = true, now
	return true
}

// release ends the pass and reports whether another pass was requested.
func (a *Autoscaler) release() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = false
	again, a.again = a.again, false
	return again
}

// EndQuarantine ends a quarantine after a configuration change.
func (a *Autoscaler) EndQuarantine() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if published := *a.Last(); !published.Quarantine.IsZero() {
		published.Quarantine = time.Time{}
		a.published.Store(&published)
	}
}

// intend records that a write follows, with the recommendations and scale events of the decision.
// It returns nil if the autoscaler was removed. The result of the previous pass remains published,
// with the intended write added.
func (a *Autoscaler) intend(to *records.Recorder, record *state.Record) *records.Commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil
	}
	before := *a.Last()
	before.Record.Intention, before.Record.Replay = record.Intention, nil
	before.Record.Target, before.Record.Labels = record.Target, record.Labels
	before.Record.Fingerprint, before.Record.Digest = record.Fingerprint, record.Digest
	a.published.Store(&before)
	a.recorded = true
	return to.Record(a.Name, record)
}

// publish publishes and records the result of a pass. If the store can derive the result from the
// previous record, publish does not record it, and the commit is nil. Publishing and recording are
// atomic: a tick cannot record the previous pass in between. The second result is false if the
// autoscaler was removed.
func (a *Autoscaler) publish(to *records.Recorder, before *Result, after *passResult, settlement policy.Settlement, period time.Duration, entries []state.Entry) (*records.Commit, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil, false
	}
	record := &after.Record
	if a.gap { // the last completed round can be later than this pass
		record.Replay = nil
	}
	derived := a.recorded && !a.gap && after.Outcome.Kind != policy.Written && records.Follows(record, &a.published.Load().Record, period)
	a.gap, a.recorded = false, true
	a.published.Store(after.Result)
	if derived && entries == nil {
		return nil, true
	}
	if derived {
		record = nil
	}
	return to.RecordOr(func(err error) { a.storeFailed(err, before, settlement, after.Record.Through) }, a.Name, record, entries...), true
}

// storeFailed handles a failed commit of the pass at now. It adds the error to the published
// result, as R74 requires, unless a later pass has ended. The decision remains published and is
// stored with the next commit. If the store rejects the record itself, the autoscaler is
// quarantined, because its decisions would be lost in a restart.
func (a *Autoscaler) storeFailed(err error, before *Result, settlement policy.Settlement, now time.Time) {
	settlement.StatusChanged = !before.Record.Status.Same(settlement.Status)
	var events []policy.Event
	for _, event := range settlement.StatusWriteFailed(err.Error()) {
		if !slices.Contains(settlement.Events, event) { // the other events are already published
			events = append(events, event)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	after := *a.Last()
	_, rejected := errors.AsType[state.RejectedError](err)
	if !rejected && !after.Record.Through.Equal(now) {
		return
	}
	if after.Events = addEvents(after.Events, events, now); after.Err == "" || rejected {
		after.Err = err.Error()
	}
	if rejected {
		after.Unevaluated, after.Quarantine = "quarantined: "+after.Err, now.Add(quarantine)
		a.recorded = false // the active pass is recorded in any case
	}
	a.published.Store(&after)
}

// publishPanic publishes the result of a pass that panicked. The store keeps the record of the
// previous pass.
func (a *Autoscaler) publishPanic(to *records.Recorder, after *Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.published.Store(after)
	a.missedLocked(to)
}

// After panicsAllowed consecutive panics, an autoscaler is quarantined: it is not evaluated for the
// duration quarantine.
const (
	panicsAllowed = 3
	quarantine    = 5 * time.Minute
)

// missed handles a tick without an evaluation: it records the previous pass without a replay. Until
// the next pass ends, the published result contains the reason in the argument why.
func (a *Autoscaler) missed(to *records.Recorder, why reason.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.Last(); before.Reason != why && (a.busy || why != reason.Late) {
		after := *before
		after.Reason = why
		a.published.Store(&after)
	}
	a.missedLocked(to)
}

// missedAt calls missed if the pass of a tick is still active.
func (a *Autoscaler) missedAt(to *records.Recorder, tick time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy && a.since.Equal(tick) {
		a.missedLocked(to)
	}
}

func (a *Autoscaler) missedLocked(to *records.Recorder) {
	a.gap = true
	before := a.Last()
	if before.Record.Replay == nil || a.removed.Load() {
		return
	}
	after := *before
	after.Record.Replay = nil
	a.published.Store(&after)
	to.Record(a.Name, &after.Record)
}

// recordUnfinished records the last pass if its round has not completed. The store replays passes
// only up to the last completed round, so it could not restore this pass after a stop.
func (a *Autoscaler) recordUnfinished(to *records.Recorder, completed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	record := &a.Last().Record
	if a.recorded && record.Replay != nil && record.Through.After(completed) {
		to.Record(a.Name, record)
	}
}

// Remove removes the autoscaler. It returns the record of a discovered autoscaler, which remains
// stored because the target can reappear, and nil for a configured autoscaler.
func (a *Autoscaler) Remove(to *records.Recorder) (orphan *state.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removed.Store(true)
	if a.request != nil {
		a.request.done <- scaleResult{err: errRemoved}
		a.request = nil
	}
	record := a.Last().Record
	if a.definition.Load().Labels == nil || record.Through.IsZero() {
		to.Remove(a.Name)
		return nil
	}
	record.Replay, record.Labels = nil, nil
	to.Record(a.Name, &record)
	return &record
}

// lowestCount returns the lowest count that the target can have.
func (a *Autoscaler) lowestCount() int32 {
	if leaves := a.removingTo.Load(); leaves != nil {
		return *leaves
	}
	record := &a.published.Load().Record
	return records.LowestCount(record, record.Status.CurrentReplicas)
}

// dated returns the instances with the platform's wall-clock times converted to monotonic times.
func (a *Autoscaler) dated(instances []policy.Instance, scale *clock.Scale, now time.Time) []policy.Instance {
	var known dates
	if before := a.dates.Load(); before != nil {
		known = *before
	}
	instances, known = known.of(instances, scale, now)
	a.dates.Store(&known)
	return instances
}

// unevaluatedAfter is the number of sync periods after which a missing evaluation is a problem.
const unevaluatedAfter = 3

// Overdue returns the time since the last evaluation if it exceeds unevaluatedAfter periods,
// otherwise 0.
func (a *Autoscaler) Overdue(now time.Time) time.Duration {
	if since := a.SinceEvaluation(now); since > unevaluatedAfter*a.definition.Load().SyncPeriod {
		return since
	}
	return 0
}

// SinceEvaluation returns the time since the last evaluation, or since the autoscaler was added.
func (a *Autoscaler) SinceEvaluation(now time.Time) time.Duration {
	published := a.published.Load()
	if last := a.repetition.Load(); last != nil && last.of == published {
		return now.Sub(last.evaluated)
	}
	if last := published.Evaluated; !last.IsZero() {
		return now.Sub(last)
	}
	return now.Sub(a.added)
}
