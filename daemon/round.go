package daemon

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/policy"
)

// round is all passes that share one tick, or that are evaluated out of turn together.
type round struct {
	*reads
	// now is the one instant of all passes, in steady time.
	now time.Time
	// tick reports whether now is a tick of the schedule; a round out of turn is none.
	tick   bool
	passes []pass
	// started is when it began, on Go's monotonic clock.
	started time.Time
	// flagged reports whether the store knows of the passes that are still under way
	// although later rounds have completed; the scheduler owns it.
	flagged bool
	// ballots are by the names of fleets that have a breaker; nil where none has.
	ballots map[string]*ballot
	// unfinished counts the passes that have not ended.
	unfinished atomic.Int64
	// completed takes the round once they all have.
	completed chan<- *round
}

// chunk is passes of a round that have what they read.
type chunk struct {
	round  *round
	passes []int
}

// newRound makes a round of a roster. Ready takes passes that have what they read, and
// completed the round once all have ended.
func newRound(e *environment, roster *roster, now time.Time, tick bool, ready chan<- chunk, completed chan<- *round) *round {
	r := &round{now: now, tick: tick, started: time.Now(), passes: make([]pass, len(roster.autoscalers)), completed: completed}
	r.reads = newReads(e, roster.plan, now, func(passes []int) { ready <- chunk{r, passes} })
	for i := range r.passes {
		r.passes[i] = pass{round: r, index: i, autoscaler: roster.autoscalers[i], definition: roster.definitions[i]}
	}
	return r
}

// end counts passes that have ended.
func (r *round) end(passes int64) {
	if r.unfinished.Add(-passes) != 0 {
		return
	}
	r.finish()
	select {
	case r.completed <- r:
	case <-r.runContext.Done():
	}
}

// pass is one evaluation of one autoscaler. One goroutine has it at a time.
type pass struct {
	*round
	// index is the pass's own among those of the round.
	index      int
	autoscaler *autoscaler
	definition *definition
	// after is what it comes to.
	after *result
	// inputs are those of its decision.
	inputs *policy.Inputs
	// asked is what a person asked for, which it obeys and has yet to answer; nil when
	// nothing.
	asked *askedCommand
	// voted reports whether the breaker of its fleet knows what it decided, and removes is
	// what it takes away of what that counts.
	voted   bool
	removes int64
}

// ballot is what the passes of one round want to take away from a fleet with a breaker.
// Nothing is taken away before all of them have decided, so that the breaker sees the
// whole.
type ballot struct {
	fleet   string
	breaker config.Breaker
	in      *generation
	// counted is closed once all have decided.
	counted chan struct{}

	mu        sync.Mutex
	undecided int
	removes   int64
	// counts are the passes' readings, by autoscaler.
	counts map[string]int32
}

// instances returns how many instances the fleet has, without those that are counted as
// removed already: by what the passes read, and for the other autoscalers by what their
// last good reading and what was written since have left.
func (b *ballot) instances() int64 {
	sum := int64(0)
	for name, a := range b.in.autoscalers {
		if a.definition.Load().Target.Fleet != b.fleet {
			continue
		}
		count, ok := b.counts[name]
		if !ok {
			count = a.leftWith()
		}
		sum += int64(count)
	}
	return sum
}

// recording is a pass that is published and whose record is being committed.
type recording struct {
	autoscaler *autoscaler
	// now is the pass's.
	now        time.Time
	before     *publication
	settlement policy.Settlement
	commit     *commit
	told       sync.Once
}

// wait returns once the record is committed. That the store failed is told as R74 says,
// once for all who wait; what was decided stays, and is written with the next commit.
func (r *recording) wait() { r.told.Do(r.settle) }

// settle is wait for the first.
func (r *recording) settle() {
	err := r.commit.wait(r.autoscaler.name)
	if err == nil {
		return
	}
	var events []policy.Event
	r.settlement.StatusChanged = !r.before.record.Status.Same(r.settlement.Status)
	for _, event := range r.settlement.StatusWriteFailed(err.Error()) {
		if !slices.Contains(r.settlement.Events, event) { // the others are published already
			events = append(events, event)
		}
	}
	r.autoscaler.unwritten(err, events, r.now)
}
