package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// round is all passes that share one tick. It is a memo: each read of its plan
// is made once, and a pass goes on as soon as its own reads are there.
type round struct {
	daemon *Daemon
	plan   *plan
	// now is the one instant of all its passes, in steady time, which scale converts
	// for platforms and sources.
	now   time.Time
	scale *clock.Scale
	// tick says that now is a tick of the schedule; a round out of turn is none.
	tick      bool
	passes    []pass
	snapshots []answer[snapshotAnswer]
	samples   []answer[samplesAnswer]
	queries   []queryRound
	batches   []batchRound
	// flagged says that the store was told of the passes that are still under way
	// although later rounds have completed; the scheduler owns it.
	flagged bool
	// unfinished counts the passes that have not ended.
	unfinished atomic.Int64
}

// pass is one evaluation of one autoscaler.
type pass struct {
	round   *round
	plan    *passPlan
	started time.Time
	// observed is the steady time when its reads were there.
	observed time.Time
	// pending counts the reads it waits for.
	pending atomic.Int32
	// ready is set once, by the last of its reads or by its own deadline.
	ready atomic.Bool
	// doubted says that the reading is not believed.
	doubted bool
	// skipped says that the autoscaler takes no part in this round.
	skipped bool
	// left says that the pass reads no answers any more.
	left bool
	// events are those that came up beside the decision's own.
	events []policy.Event
}

// answer is what a read answered. It is told once; whoever is second waits for
// the first, so that a round whose reads have ended hands over no more passes.
type answer[T any] struct {
	once  sync.Once
	told  atomic.Bool
	value T
}

// tell fills in the value, and then goes on.
func (a *answer[T]) tell(fill func(value *T), then func()) {
	a.once.Do(func() {
		fill(&a.value)
		a.told.Store(true)
		then()
	})
}

// get is nil as long as the read has not ended.
func (a *answer[T]) get() *T {
	if !a.told.Load() {
		return nil
	}
	return &a.value
}

type snapshotAnswer struct {
	readings map[targets.Ref]targets.Reading
	err      error
}

type samplesAnswer struct {
	samples map[targets.Ref]targets.Samples
	err     error
}

type queryAnswer struct {
	found observe.Answer
	err   error
}

// queryRound is a query in a round: its answer, and how many metrics have not read
// it yet. With the last of them it goes, since it may be large and a round may take
// as long as its slowest write.
type queryRound struct {
	answer[queryAnswer]
	readers atomic.Int32
	gone    atomic.Bool
}

// read counts a metric that has read the answer, or will not.
func (q *queryRound) read() {
	if q.readers.Add(-1) == 0 {
		q.drop()
	}
}

// drop gives the answer back once it is there and nobody will read it any more.
func (q *queryRound) drop() {
	if q.told.Load() && q.readers.Load() == 0 && q.gone.CompareAndSwap(false, true) {
		q.value.found.Release()
	}
}

// batchRound is what is known in a round of whether a batch's source answers: left
// counts the queries that have not ended yet, and answered says that one was answered.
type batchRound struct {
	left     atomic.Int32
	answered atomic.Bool
}

// ended takes in the error of one query. A query that fails is the matter of those who
// ask it, and so is one with a mistake; a source fails when it answers none.
func (b *batchRound) ended(err error) {
	_, mistaken := errors.AsType[*sources.QueryError](err)
	if err == nil || mistaken || errors.Is(err, sources.ErrNoRoom) {
		b.answered.Store(true)
	}
	b.left.Add(-1)
}

// readsAtOnce bounds the reads of one kind under way at one fleet: a round makes
// one, a round out of turn may make another, and some may hang.
const readsAtOnce = 4

// queriesAtOnce bounds the queries under way at one source; a source may have a
// lower bound of its own.
const queriesAtOnce = 64

func (d *Daemon) newRound(p *plan, now time.Time, tick bool) *round {
	r := &round{
		daemon:    d,
		plan:      p,
		now:       now,
		scale:     d.clock.Scale(),
		tick:      tick,
		passes:    make([]pass, len(p.passes)),
		snapshots: make([]answer[snapshotAnswer], len(p.snapshots)),
		samples:   make([]answer[samplesAnswer], len(p.samples)),
		queries:   make([]queryRound, len(p.queries)),
		batches:   make([]batchRound, len(p.batches)),
	}
	for i := range r.batches {
		r.batches[i].left.Store(int32(len(p.batches[i].queries)))
	}
	for i := range r.queries {
		r.queries[i].readers.Store(p.queries[i].readers)
	}
	started := time.Now()
	for i := range r.passes {
		r.passes[i].round = r
		r.passes[i].plan = &p.passes[i]
		r.passes[i].started = started
		r.passes[i].pending.Store(p.passes[i].inputs)
	}
	return r
}

// start begins every read of the round; it does not wait for any. Until the last
// pass has ended the round uses all of its adapters, also between a pass's read
// and its write, and so does each read until it ends.
func (r *round) start(ctx context.Context) {
	read := func(uses *uses, read func()) {
		uses.begin() // for the passes
		uses.begin() // for the read
		r.daemon.reads.Go(func() {
			defer uses.end()
			read()
		})
	}
	for i := range r.plan.snapshots {
		read(&r.plan.snapshots[i].fleet.uses, func() { r.readSnapshot(ctx, i) })
	}
	for i := range r.plan.samples {
		read(&r.plan.samples[i].fleet.uses, func() { r.readSamples(ctx, i) })
	}
	for i := range r.plan.batches {
		read(&r.plan.batches[i].source.uses, func() { r.runQueries(ctx, i) })
	}
	for timeout, passes := range r.plan.impatient {
		r.daemon.reads.Go(func() {
			if sleep(ctx, timeout+callGrace) == nil {
				r.giveUp(passes)
			}
		})
	}
}

func (r *round) readSnapshot(ctx context.Context, i int) {
	read := &r.plan.snapshots[i]
	ctx, cancel := context.WithTimeoutCause(ctx, read.timeout, readLimit(read.timeout))
	defer cancel()
	tell := func(readings map[targets.Ref]targets.Reading, err error) {
		r.snapshots[i].tell(func(told *snapshotAnswer) { told.readings, told.err = readings, err }, func() {
			read.fleet.remember(readings)
			r.daemon.reportFleet(read.fleet, len(read.waiting), err)
			r.arrived(read.waiting)
		})
	}
	read.fleet.snapshots.run(ctx, 1, func(ctx context.Context, _ int) {
		var readings map[targets.Ref]targets.Reading
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			readings, err = read.fleet.fleet.Snapshot(ctx, read.refs)
			return withLimit(ctx, err)
		})
		var panicked *trouble.Panic
		if errors.As(err, &panicked) { // any other error names the fleet itself
			err = fmt.Errorf("read fleet %q: %w", read.fleet.name, err)
		}
		r.daemon.metrics.FleetCall(read.fleet.name, callSnapshot, time.Since(started), err)
		tell(readings, err)
	}, func(_ int, err error) { tell(nil, fmt.Errorf("read fleet %q: %w", read.fleet.name, err)) })
}

func (r *round) readSamples(ctx context.Context, i int) {
	read := &r.plan.samples[i]
	ctx, cancel := context.WithTimeoutCause(ctx, read.timeout, readLimit(read.timeout))
	defer cancel()
	tell := func(samples map[targets.Ref]targets.Samples, err error) {
		if err != nil {
			err = fmt.Errorf("read samples of fleet %q: %w", read.fleet.name, err)
		}
		r.samples[i].tell(func(told *samplesAnswer) { told.samples, told.err = samples, err }, func() {
			r.daemon.reportSamples(read.fleet, len(read.waiting), err)
			r.arrived(read.waiting)
		})
	}
	if read.fleet.sampler == nil {
		tell(nil, errors.New("this kind of fleet does not measure its instances; give the metric a source and a query"))
		return
	}
	read.fleet.samples.run(ctx, 1, func(ctx context.Context, _ int) {
		var samples map[targets.Ref]targets.Samples
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			samples, err = read.fleet.sampler.Samples(ctx, read.refs)
			return withLimit(ctx, err)
		})
		r.daemon.metrics.FleetCall(read.fleet.name, callSamples, time.Since(started), err)
		tell(samples, err)
	}, func(_ int, err error) { tell(nil, err) })
}

func (r *round) runQueries(ctx context.Context, i int) {
	batch, state := &r.plan.batches[i], &r.batches[i]
	ctx, cancel := context.WithTimeoutCause(ctx, batch.timeout, readLimit(batch.timeout))
	defer cancel()
	tell := func(i int, vector sources.Vector, err error) {
		q := &r.queries[batch.queries[i]]
		late := true
		q.tell(func(told *queryAnswer) {
			late = false
			told.found.Vector, told.err = vector, err
		}, func() {
			q.drop() // whoever waited for it may have given up
			state.ended(err)
			r.arrived(r.plan.queries[batch.queries[i]].waiting)
		})
		if late {
			vector.Release()
		}
	}
	batch.source.queries.run(ctx, len(batch.queries), func(ctx context.Context, i int) {
		var vector sources.Vector
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			vector, err = batch.source.source.Query(ctx, r.plan.queries[batch.queries[i]].query, r.scale.Wall(r.now))
			return withLimit(ctx, err)
		})
		r.daemon.metrics.Query(batch.source.name, time.Since(started), err)
		r.daemon.reportWarnings(batch.source, r.plan.queries[batch.queries[i]].query.Text, vector.Warnings)
		tell(i, vector, err)
	}, func(i int, err error) {
		tell(i, sources.Vector{}, fmt.Errorf("query source %q: %w", batch.source.name, err))
	})
	var err error
	if !state.answered.Load() {
		err = r.queries[batch.queries[0]].get().err
	}
	r.daemon.reportSource(batch.source, batch.autoscalers, err)
}

// readyChunk is how many ready passes are handed to a worker together.
const readyChunk = 32

// arrived takes one read off each waiting pass and hands over those that wait
// for nothing more.
func (r *round) arrived(waiting []int) {
	r.handOver(waiting, func(p *pass) bool { return p.pending.Add(-1) == 0 })
}

// giveUp hands over passes that have waited for long enough; what they lack by
// now are failed readings.
func (r *round) giveUp(waiting []int) {
	r.handOver(waiting, func(*pass) bool { return true })
}

// handOver gives the passes that are due to the workers, each once.
func (r *round) handOver(waiting []int, due func(p *pass) bool) {
	var ready []*pass
	for _, i := range waiting {
		p := &r.passes[i]
		if p.skipped || !due(p) || !p.ready.CompareAndSwap(false, true) {
			continue
		}
		ready = append(ready, p)
		if len(ready) == readyChunk {
			r.daemon.handOver(ready)
			ready = nil
		}
	}
	if len(ready) > 0 {
		r.daemon.handOver(ready)
	}
}

// ended counts a pass out; the last one completes the round.
func (r *round) ended() {
	if r.unfinished.Add(-1) != 0 {
		return
	}
	for i := range r.plan.snapshots {
		r.plan.snapshots[i].fleet.uses.end()
	}
	for i := range r.plan.samples {
		r.plan.samples[i].fleet.uses.end()
	}
	for i := range r.plan.batches {
		r.plan.batches[i].source.uses.end()
	}
	r.daemon.roundCompleted(r)
}
