package round

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/targets/clock"
)

// round consists of all passes of one tick, or of a set of passes between ticks.
type round struct {
	env  *Env
	plan *plan
	// now is the instant of all passes, in monotonic time; scale converts it to wall-clock time.
	now   time.Time
	scale *clock.Scale
	// tick reports whether now is a tick of the schedule.
	tick bool
	// readOnly reports whether the round only lists instances for a user. Failed reads of such a
	// round are not reported.
	readOnly bool
	// started is the time when the round started, on Go's monotonic clock.
	started time.Time
	passes  []pass
	// unfinished counts the passes that have not ended.
	unfinished atomic.Int64
	// over is closed when all passes have ended.
	over chan struct{}
	// missed is set when the scheduler has recorded that a later round ended first. Only the
	// scheduler accesses it.
	missed bool

	// snapshots, samples and queries are the reads of the plan. responded reports for each batch
	// of queries whether its source has responded to any query.
	snapshots []snapshotRead
	samples   []future[samplesResult]
	queries   []queryRead
	responded []atomic.Bool
	// uses are the use counts of the adapters that the round uses.
	uses []*adapters.UseCount
	// removals maps fleets with a breaker to their scale-downs. It is nil if no fleet of the round
	// has a breaker.
	removals map[string]*fleetRemovals

	// ready receives each pass once, when its reads have ended or its timeout has expired.
	ready chan<- *pass
	// completed receives the round when all passes have ended.
	completed chan<- *round
}

func newRound(e *Env, set *autoscalerSet, now time.Time, ready chan<- *pass, completed chan<- *round) *round {
	p := set.plan
	r := &round{
		env: e, plan: p, now: now, scale: e.Clock.Scale(), started: time.Now(), ready: ready, completed: completed,
		passes:    make([]pass, len(p.passes)),
		over:      make(chan struct{}),
		snapshots: make([]snapshotRead, len(p.snapshots)),
		samples:   make([]future[samplesResult], len(p.samples)),
		queries:   make([]queryRead, len(p.queries)),
		responded: make([]atomic.Bool, len(p.batches)),
	}
	for i := range r.passes {
		next := &r.passes[i]
		next.round, next.env, next.plan = r, e, &p.passes[i]
		next.autoscaler, next.definition = set.autoscalers[i], set.definitions[i]
		next.missing.Store(p.passes[i].reads)
	}
	for _, i := range set.scheduled {
		r.passes[i].definition = set.definitions[i].At(r.scale.Wall(now))
	}
	for i := range r.queries {
		r.queries[i].users.Store(p.queries[i].metrics + 1)
	}
	return r
}

// end records that a pass has ended.
func (r *round) end() {
	if r.unfinished.Add(-1) != 0 {
		return
	}
	close(r.over)
	for _, uses := range r.uses {
		uses.End()
	}
	select {
	case r.completed <- r:
	case <-r.env.RunContext.Done():
	}
}

// future is the result of a read. It is set once.
type future[T any] struct {
	once  sync.Once
	value atomic.Pointer[T]
}

// set stores the value and calls then. A later call waits for the first call and has no other
// effect. Therefore, no pass becomes ready after all reads of its round have returned.
func (f *future[T]) set(value *T, then func()) (first bool) {
	f.once.Do(func() {
		first = true
		f.value.Store(value)
		then()
	})
	return first
}

// get returns nil until the read has ended.
func (f *future[T]) get() *T { return f.value.Load() }

// arrived records for each pass that a read has ended.
func (r *round) arrived(passes []int) {
	for _, i := range passes {
		if p := &r.passes[i]; p.missing.Add(-1) == 0 {
			p.becomeReady()
		}
	}
}
