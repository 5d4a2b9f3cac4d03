package daemon

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/metrics"
	"github.com/hpad/hpad/daemon/reason"
	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
)

// autoscaler is one autoscaler at run time. It outlives reloads; its definition
// does not.
type autoscaler struct {
	name string
	// added is since when this run has it, on Go's monotonic clock.
	added      time.Time
	definition atomic.Pointer[definition]
	metrics    *metrics.Autoscaler
	// published is what readers see and the next pass begins with: replaced whole, with
	// mu held, and never changed.
	published atomic.Pointer[publication]
	// cpuUse is what each instance used at the last reading, in thousandths of a
	// core by id, where victims are chosen by it; nil before the first.
	cpuUse atomic.Pointer[map[string]int64]
	// dates are the dates of the instances at the last reading; nil before the first.
	dates atomic.Pointer[dates]
	// leaves is the count that the pass under way is about to leave, where that takes
	// something away which a breaker counts; nil for any other.
	leaves atomic.Pointer[int32]
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
	// recorded is set once the store was given a record by this run.
	recorded bool
	// gap is set when a tick passed by while a pass was under way.
	gap bool
	// command is what a person asked for that no pass has taken up; nil when nothing.
	command *askedCommand
	// recalled are events of before the start that the pass under way may not know.
	recalled []api.Event

	// The pass under way owns the rest, and the scheduler while there is none.
	//
	// known is since when at least what it knows of its target was so, on Go's monotonic
	// clock: the beginning of the last read that a pass went by, or the end of a write
	// since; zero before the first.
	known time.Time
	// retried reports whether the last pass lost its write to somebody else and the
	// autoscaler was evaluated again at once for it.
	retried bool
	// unsure reports whether the last pass did not know whether the source was out that
	// failed.
	unsure bool
	// unmeasured is when the first pass of this run was, as long as all of them failed for
	// nothing but that the fleet had not sampled the instances yet; zero else.
	unmeasured time.Time
	// panicked reports whether a pass panicked and none has gone well since.
	panicked bool
	// panics counts panics in a row.
	panics int
	// stepsTold is how many steps of the wall clock are among the events.
	stepsTold uint64
	// following follows what is wrong.
	following following
	// drawn is when a pass was drawn last, in seconds since 1970.
	drawn int64
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
	a := &autoscaler{name: def.Name, added: time.Now(), metrics: m}
	a.definition.Store(def)
	published := &publication{record: state.Record{Created: now}}
	if record != nil {
		published.record = *record
		if record.Hindrance != nil {
			a.following.hindrance = trouble.Known(record.Hindrance.Cause, record.Hindrance.Since)
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

// intend has a write that is about to be made committed, with the memory of the
// decision; nil when the autoscaler was removed. What readers see stays the pass before,
// with the intention.
func (a *autoscaler) intend(to *recorder, record *state.Record) *commit {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil
	}
	before := *a.published.Load()
	before.record.Intention, before.record.Replay = record.Intention, nil
	before.record.Target, before.record.Labels, before.record.Fingerprint = record.Target, record.Labels, record.Fingerprint
	a.published.Store(&before)
	a.recorded = true
	return to.record(a.name, record)
}

// publish shows readers what a pass found, and has recorded what the store does not
// know, which may be nothing, and then there is no commit. Both are one step: a tick
// that goes by meanwhile has the pass before recorded, as readers saw it. It is false
// when the autoscaler was removed.
func (a *autoscaler) publish(to *recorder, after *result, period time.Duration, entries []state.Entry) (*commit, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed.Load() {
		return nil, false
	}
	record := &after.record
	if a.gap { // LastRound may be past this pass already, and those ticks were missed
		record.Replay = nil
	}
	known := a.recorded && !a.gap && after.Outcome.Kind != policy.Written && follows(record, &a.published.Load().record, period)
	a.gap, a.recorded = false, true
	a.keepRecalled(&after.publication)
	a.published.Store(&after.publication)
	switch {
	case !known:
		return to.record(a.name, record, entries...), true
	case entries != nil:
		return to.record(a.name, nil, entries...), true
	}
	return nil, true
}

// recall shows readers events of before the start, and has the pass under way keep them.
func (a *autoscaler) recall(events []api.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := *a.published.Load()
	after.events, after.recalled = joinEvents(events, after.events), true
	a.published.Store(&after)
	if a.busy {
		a.recalled = events
	}
}

// keepRecalled adds events of before the start to what a pass found that began before
// they were known.
func (a *autoscaler) keepRecalled(after *publication) {
	if a.recalled != nil && !after.recalled {
		after.events, after.recalled = joinEvents(a.recalled, after.events), true
	}
	a.recalled = nil
}

// publishPanic shows readers that a pass panicked; the store has the pass before.
func (a *autoscaler) publishPanic(to *recorder, after *publication) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keepRecalled(after)
	a.published.Store(after)
	a.missedLocked(to)
}

// After panicsAllowed panics in a row an autoscaler is not evaluated for the
// time of quarantine.
const (
	panicsAllowed = 3
	quarantine    = 5 * time.Minute
)

// unwritten shows readers that what a pass at now left could not be written, unless there
// was another one since. An autoscaler whose record the store rejects is quarantined:
// a restart would not know its decisions.
func (a *autoscaler) unwritten(err error, events []policy.Event, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	after := *a.published.Load()
	_, rejected := errors.AsType[state.RejectedError](err)
	if !rejected && !after.record.Through.Equal(now) {
		return
	}
	after.err, after.events = err.Error(), addEvents(after.events, events, now)
	if rejected {
		after.unevaluated, after.quarantine = "quarantined: "+after.err, now.Add(quarantine)
		a.recorded = false // a pass under way is recorded, whatever it finds
	}
	a.published.Store(&after)
}

// missed has the store replay nothing for a tick that passed by without a pass of its
// own: what it gets instead is the pass before, as it was. Readers see why there was
// none, until a pass ends.
func (a *autoscaler) missed(to *recorder, why reason.Code) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before := a.published.Load(); before.reason != why && (a.busy || why != reason.Late) {
		after := *before
		after.reason = why
		a.published.Store(&after)
	}
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
	before := a.published.Load()
	if before.record.Replay == nil || a.removed.Load() {
		return
	}
	after := *before
	after.record.Replay = nil
	a.published.Store(&after)
	to.record(a.name, &after.record)
}

// keepUnfinished has the last pass recorded where the store was to replay it once its
// round had completed, which a stop prevents.
func (a *autoscaler) keepUnfinished(to *recorder, completed time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	published := a.published.Load()
	if record := &published.record; a.recorded && record.Replay != nil && record.Through.After(completed) {
		to.record(a.name, record)
	}
}

// remove takes the autoscaler away. What is kept of one whose target is gone, or asks
// for it no longer, is its record: the target may come back. It is nil for one of the
// configuration, which a person removed.
func (a *autoscaler) remove(to *recorder) (orphan *state.Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.removed.Store(true)
	if a.command != nil {
		a.command.done <- commandOutcome{err: errRemoved}
		a.command = nil
	}
	record := a.published.Load().record
	if a.definition.Load().Labels == nil || record.Through.IsZero() {
		to.remove(a.name)
		return nil
	}
	record.Replay, record.Labels = nil, nil
	to.record(a.name, &record)
	return &record
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
		timeout: readTimeout(d.SyncPeriod),
	}
	if d.settings.Mode == policy.ModeOff {
		return n
	}
	n.queries = make([]queryNeed, len(d.inputs))
	for i, in := range d.inputs {
		n.queries[i] = queryNeed{source: in.source, text: in.Query, labels: in.Labels, maxAge: in.MaxAge}
	}
	return n
}

// askedCommand is a count that a person asks for, and what becomes of it.
type askedCommand struct {
	policy.Command
	// done gets what became of it, once.
	done chan commandOutcome
}

// commandOutcome is what became of a command.
type commandOutcome struct {
	err error
	// kept returns once the state has what the pass recorded that obeyed; nil where that
	// was nothing.
	kept func()
}

// ask has the next pass obey a command; false where another one waits for that.
func (a *autoscaler) ask(asked *askedCommand) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.command != nil {
		return false
	}
	a.command = asked
	return true
}

// takeBack reports whether no pass has taken up a command, which none does then.
func (a *autoscaler) takeBack(asked *askedCommand) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.command != asked {
		return false
	}
	a.command = nil
	return true
}

// commanded returns the command that waits for a pass, which owes it an outcome; nil when
// there is none.
func (a *autoscaler) commanded() *askedCommand {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.command
	a.command = nil
	return asked
}

// leftWith returns the lowest count that the target may be at by what is known.
func (a *autoscaler) leftWith() int32 {
	if leaves := a.leaves.Load(); leaves != nil {
		return *leaves
	}
	record := &a.published.Load().record
	return wanted(record, record.Status.CurrentReplicas)
}

// errRemoved is why a count is not written of which a pass has decided.
var errRemoved = errors.New("the autoscaler was removed")
