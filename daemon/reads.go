package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/trouble"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// reads is what one round reads, each fleet and each query once. It is a memo: a pass
// goes on as soon as its own reads are there, also those that others asked for.
type reads struct {
	*environment
	plan *plan
	// now is the one instant of all passes, in steady time, which scale converts for
	// platforms and sources.
	now   time.Time
	scale *clock.Scale
	// ready is told, once for each pass, which passes have all that they read, or have
	// waited for long enough: a few at a time.
	ready func(passes []int)

	waits []wait
	// snapshots has one read for each of the plan, and as many again for passes that
	// cannot share one that is under way already.
	snapshots []snapshotRound
	samples   []answer[samplesAnswer]
	queries   []queryRound
	batches   []batchRound
	// over is closed once every pass has ended.
	over chan struct{}
	// look is whether a person looks and nothing is decided: what fails is in what is
	// returned, and is no news of a fleet or a source.
	look bool
}

// wait is how far the reads of one pass are.
type wait struct {
	// pending counts the reads it waits for.
	pending atomic.Int32
	// over is set once, by the last of its reads or by its own deadline.
	over atomic.Bool
	// left reports whether the pass reads no answers any more. It is the pass's own.
	left bool
	// snapshot is the index of the read of its target.
	snapshot int32
}

// answer is what came of a read. It is set once; whoever is second waits for
// the first, so that a round whose reads have ended hands over no more passes.
type answer[T any] struct {
	once  sync.Once
	told  atomic.Bool
	value T
}

// set fills in the value, and then goes on.
func (a *answer[T]) set(fill func(value *T), then func()) {
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
	// since is when the read began.
	since time.Time
}

// snapshotRound is a read of a fleet's targets in a round.
type snapshotRound struct {
	answer[snapshotAnswer]
	fleet *adapters.Fleet
	refs  []targets.Ref
	// waiting are the passes that wait for it, timeout how long the most patient does.
	waiting []int
	timeout time.Duration
	// shared is a read of an earlier round that was under way; nil where none was.
	shared *adapters.Read
	// late reports whether all passes gave it up.
	late atomic.Bool
}

type samplesAnswer struct {
	samples map[targets.Ref]targets.Samples
	err     error
}

type queryAnswer struct {
	found observe.Answer
	err   error
	// empty reports whether the result has no series.
	empty bool
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

// batchRound is what is known in a round of whether a batch's source works: left
// counts the queries that have not ended yet, and answered says that one was answered.
type batchRound struct {
	left     atomic.Int32
	answered atomic.Bool
}

// ended counts one query, with its error. A query that fails is the matter of those who
// ask it, and so is one with a mistake; a source fails when all of its queries do.
func (b *batchRound) ended(err error) {
	_, mistaken := errors.AsType[*sources.QueryError](err)
	if err == nil || mistaken || errors.Is(err, sources.ErrNoRoom) {
		b.answered.Store(true)
	}
	b.left.Add(-1)
}

func newReads(e *environment, p *plan, now time.Time, ready func(passes []int)) *reads {
	r := &reads{
		environment: e,
		plan:        p,
		now:         now,
		scale:       e.clock.Scale(),
		ready:       ready,
		waits:       make([]wait, len(p.passes)),
		snapshots:   make([]snapshotRound, 2*len(p.snapshots)),
		samples:     make([]answer[samplesAnswer], len(p.samples)),
		queries:     make([]queryRound, len(p.queries)),
		batches:     make([]batchRound, len(p.batches)),
		over:        make(chan struct{}),
	}
	for i := range r.waits {
		r.waits[i].pending.Store(p.passes[i].inputs)
	}
	for i := range r.batches {
		r.batches[i].left.Store(int32(len(p.batches[i].queries)))
	}
	for i := range r.queries {
		r.queries[i].readers.Store(p.queries[i].readers)
	}
	return r
}

// start begins every read; it does not wait for any. Until finish the round uses all
// of its adapters, also between a pass's read and its write, and so does each read
// until it ends. Known returns since when at least what a pass's autoscaler knows of its
// target was so.
func (r *reads) start(known func(pass int) time.Time) {
	ctx := r.runContext
	read := func(uses *adapters.Uses, read func()) {
		uses.Begin() // for the passes
		uses.Begin() // for the read
		r.readers.Go(func() {
			defer uses.End()
			read()
		})
	}
	for i := range r.plan.snapshots {
		r.share(i, known)
	}
	for i := range r.snapshots {
		if s := &r.snapshots[i]; len(s.waiting) > 0 {
			read(&s.fleet.Uses, func() { r.readSnapshot(ctx, s) })
		}
	}
	for i := range r.plan.samples {
		read(&r.plan.samples[i].fleet.Uses, func() { r.readSamples(ctx, i) })
	}
	for i := range r.plan.batches {
		read(&r.plan.batches[i].source.Uses, func() { r.runQueries(ctx, i) })
	}
	for timeout, passes := range r.plan.patience {
		r.readers.Go(func() { r.await(ctx, timeout, passes) })
	}
}

// await has passes go on after their time, with what is there by then, unless every
// pass has ended before.
func (r *reads) await(ctx context.Context, timeout time.Duration, passes []int) {
	timer := time.NewTimer(timeout + partly(timeout) + adapters.CallGrace*3/2) // later than a read with the same limit
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.over:
		return
	case <-ctx.Done():
		return
	}
	for i := range r.snapshots {
		if s := &r.snapshots[i]; len(s.waiting) > 0 && s.timeout == timeout && s.get() == nil {
			s.late.Store(true)
			r.reportFleet(s.fleet, len(s.waiting), fmt.Errorf("read fleet %q: %w", s.fleet.Name, readLimit(timeout)))
		}
	}
	r.giveUp(passes)
}

// share decides who waits for which read of a fleet's targets. One of an earlier round
// that is under way is not begun a second time: what it finds is as new as that round
// was, and younger than a read may get. But a target of which something newer is known,
// as that it was written meanwhile, is read by itself.
func (r *reads) share(i int, known func(pass int) time.Time) {
	read := &r.plan.snapshots[i]
	s := &r.snapshots[i]
	s.fleet, s.refs, s.waiting, s.timeout = read.fleet, read.refs, read.waiting, read.timeout
	for _, pass := range s.waiting {
		r.waits[pass].snapshot = int32(i)
	}
	if s.shared = read.fleet.Snapshots.Covering(read.refs); s.shared == nil {
		return
	}
	own := &r.snapshots[len(r.plan.snapshots)+i]
	own.fleet, own.timeout = read.fleet, read.timeout
	for at, pass := range read.waiting {
		if r.waits[pass].over.Load() || !known(pass).After(s.shared.Began) {
			continue
		}
		own.refs, own.waiting = append(own.refs, read.refs[at]), append(own.waiting, pass)
		r.waits[pass].snapshot = int32(len(r.plan.snapshots) + i)
	}
	if len(own.waiting) > 0 {
		s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), func(pass int) bool { return r.waits[pass].snapshot != int32(i) })
	}
}

// finish lets the adapters go: every pass has ended.
func (r *reads) finish() {
	close(r.over)
	for i := range r.snapshots {
		if s := &r.snapshots[i]; len(s.waiting) > 0 {
			s.fleet.Uses.End()
		}
	}
	for i := range r.plan.samples {
		r.plan.samples[i].fleet.Uses.End()
	}
	for i := range r.plan.batches {
		r.plan.batches[i].source.Uses.End()
	}
}

// skip leaves out a pass that takes no part. It comes before start.
func (r *reads) skip(pass int) {
	r.waits[pass].over.Store(true)
	r.leave(pass)
}

// withdraw leaves out a pass that still waits for its reads; false where it does not.
func (r *reads) withdraw(pass int) bool {
	if !r.waits[pass].over.CompareAndSwap(false, true) {
		return false
	}
	r.leave(pass)
	return true
}

// leave gives back the answers that a pass reads, once it needs none any more. Only
// the first call counts.
func (r *reads) leave(pass int) {
	if r.waits[pass].left {
		return
	}
	r.waits[pass].left = true
	for _, q := range r.plan.passes[pass].queries {
		if q >= 0 {
			r.queries[q].read()
		}
	}
}

// readSnapshot reads the targets that passes wait for, unless a read of an earlier round
// has them.
func (r *reads) readSnapshot(ctx context.Context, s *snapshotRound) {
	tell := func(read *adapters.Read) {
		s.set(func(told *snapshotAnswer) { *told = snapshotAnswer{read.Readings, read.Err, read.Began} }, func() { r.arrived(s.waiting) })
	}
	if s.shared != nil && !r.ended(s.shared) {
		return
	}
	if s.shared != nil && s.shared.Err == nil {
		tell(s.shared)
		return
	}
	under, begun := s.fleet.Snapshots.Begin(s.refs, s.shared)
	if !begun {
		if r.ended(under) {
			tell(under)
		}
		return
	}
	limit := readLimit(s.timeout)
	if s.fleet.Timeout > s.timeout {
		limit = &limitError{s.fleet.Timeout, "the fleet's timeout"}
	}
	outer, cancel := context.WithTimeoutCause(ctx, limit.limit+partly(limit.limit), limit)
	defer cancel()
	var once sync.Once
	end := func(readings map[targets.Ref]targets.Reading, err error) {
		once.Do(func() {
			s.fleet.Keep(readings)
			r.reportFleet(s.fleet, len(s.waiting), err)
			s.fleet.Snapshots.End(under, readings, err)
			tell(under)
		})
	}
	s.fleet.Snapshots.Run(outer, 1, func(context.Context, int) {
		var readings map[targets.Ref]targets.Reading
		inner, cancel := context.WithTimeoutCause(ctx, limit.limit, limit)
		defer cancel()
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			readings, err = s.fleet.Snapshot(inner, s.refs)
			return withLimit(inner, err)
		})
		var panicked *trouble.Panic
		if errors.As(err, &panicked) { // any other error names the fleet itself
			err = fmt.Errorf("read fleet %q: %w", s.fleet.Name, err)
		}
		r.metrics.FleetCall(s.fleet.Name, callSnapshot, time.Since(started), err)
		end(readings, err)
	}, func(_ int, err error) { end(nil, fmt.Errorf("read fleet %q: %w", s.fleet.Name, err)) })
}

// ended waits for a read of another round; false where all passes of this one ended
// before.
func (r *reads) ended(read *adapters.Read) bool {
	select {
	case <-read.Done:
		return true
	case <-r.over:
		return false
	}
}

func (r *reads) readSamples(ctx context.Context, i int) {
	read := &r.plan.samples[i]
	ctx, cancel := context.WithTimeoutCause(ctx, read.timeout, readLimit(read.timeout))
	defer cancel()
	tell := func(samples map[targets.Ref]targets.Samples, err error) {
		if err != nil {
			err = fmt.Errorf("read samples of fleet %q: %w", read.fleet.Name, err)
		}
		r.samples[i].set(func(told *samplesAnswer) { told.samples, told.err = samples, err }, func() {
			r.reportSamples(read.fleet, len(read.waiting), err)
			r.arrived(read.waiting)
		})
	}
	if read.fleet.Sampler == nil {
		tell(nil, errors.New("this kind of fleet does not measure its instances; give the metric a source and a query"))
		return
	}
	read.fleet.Samples.Run(ctx, 1, func(ctx context.Context, _ int) {
		var samples map[targets.Ref]targets.Samples
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			samples, err = read.fleet.Sampler.Samples(ctx, read.refs)
			return withLimit(ctx, err)
		})
		r.metrics.FleetCall(read.fleet.Name, callSamples, time.Since(started), err)
		tell(samples, err)
	}, func(_ int, err error) { tell(nil, err) })
}

func (r *reads) runQueries(ctx context.Context, i int) {
	batch, state := &r.plan.batches[i], &r.batches[i]
	ctx, cancel := context.WithTimeoutCause(ctx, batch.timeout, readLimit(batch.timeout))
	defer cancel()
	tell := func(i int, vector sources.Vector, err error) {
		q := &r.queries[batch.queries[i]]
		late := true
		q.set(func(told *queryAnswer) {
			late = false
			told.found.Vector, told.err = vector, err
			query := &r.plan.queries[batch.queries[i]].query
			if told.empty = err == nil && len(vector.Series) == 0; told.empty {
				told.found.Absence = batch.source.Cause(query)
			} else if err == nil {
				batch.source.Answered(query)
			}
		}, func() {
			q.drop() // whoever waited for it may have given up
			state.ended(err)
			r.arrived(r.plan.queries[batch.queries[i]].waiting)
		})
		if late {
			vector.Release()
		}
	}
	batch.source.Queries.Run(ctx, len(batch.queries), func(ctx context.Context, i int) {
		var vector sources.Vector
		started := time.Now()
		err := trouble.Guard(func() (err error) {
			vector, err = batch.source.Query(ctx, r.plan.queries[batch.queries[i]].query, r.scale.Wall(r.now))
			return withLimit(ctx, err)
		})
		r.metrics.Query(batch.source.Name, time.Since(started), err)
		r.reportWarnings(batch.source, r.plan.queries[batch.queries[i]].query.Text, vector.Warnings)
		r.reportWarnings(batch.source, r.plan.queries[batch.queries[i]].query.Text, vector.Infos)
		tell(i, vector, err)
	}, func(i int, err error) {
		tell(i, sources.Vector{}, fmt.Errorf("query source %q: %w", batch.source.Name, err))
	})
	var err error
	if !state.answered.Load() {
		err = r.queries[batch.queries[0]].get().err
	}
	r.reportSource(batch.source, batch.autoscalers, err)
	r.diagnose(batch)
}

// diagnose finds the causes of missing results for later rounds. No pass waits for it.
func (r *reads) diagnose(batch *queryBatch) {
	var empty []*sources.Query
	for _, q := range batch.queries {
		if answer := r.queries[q].get(); answer != nil && answer.empty {
			empty = append(empty, &r.plan.queries[q].query)
		}
	}
	batch.source.Diagnose(r.runContext, empty, r.scale.Wall(r.now))
}

// readyChunk is how many passes become ready together at most.
const readyChunk = 32

// arrived takes one read off each waiting pass, and tells of those that wait for
// nothing more.
func (r *reads) arrived(waiting []int) {
	r.hand(waiting, func(w *wait) bool { return w.pending.Add(-1) == 0 })
}

// giveUp tells of passes that have waited for long enough; what they lack by now are
// failed readings.
func (r *reads) giveUp(waiting []int) {
	r.hand(waiting, func(*wait) bool { return true })
}

// hand tells of the passes that are due, each once.
func (r *reads) hand(waiting []int, due func(w *wait) bool) {
	var passes []int
	for _, i := range waiting {
		w := &r.waits[i]
		if !due(w) || !w.over.CompareAndSwap(false, true) {
			continue
		}
		if passes = append(passes, i); len(passes) == readyChunk {
			r.ready(passes)
			passes = nil
		}
	}
	if len(passes) > 0 {
		r.ready(passes)
	}
}

// reading returns what the fleet says of a pass's target, and since when at least that
// was so.
func (r *reads) reading(pass int) (_ targets.Reading, since time.Time, _ error) {
	plan := &r.plan.passes[pass]
	read := &r.snapshots[r.waits[pass].snapshot]
	answer := read.get()
	if answer == nil {
		return targets.Reading{}, since, fmt.Errorf("read fleet %q: %w", read.fleet.Name, r.tooLate(pass))
	}
	if answer.err != nil {
		return targets.Reading{}, since, answer.err
	}
	reading, ok := answer.readings[plan.target]
	if !ok {
		return reading, since, fmt.Errorf("read target %s: the fleet's answer does not mention it", plan.target)
	}
	if reading.Err != nil {
		return reading, since, fmt.Errorf("read target %s: %w", plan.target, reading.Err)
	}
	return reading, answer.since, nil
}

// sampled returns what the fleet's samples say of a pass's target.
func (r *reads) sampled(pass int) (targets.Samples, error) {
	plan := &r.plan.passes[pass]
	answer := r.samples[plan.samples].get()
	switch {
	case answer == nil:
		return targets.Samples{}, fmt.Errorf("read samples of fleet %q: %w", r.plan.samples[plan.samples].fleet.Name, r.tooLate(pass))
	case answer.err != nil:
		return targets.Samples{}, answer.err
	}
	return answer.samples[plan.target], nil
}

// queried returns the answer to the query of a pass's metric.
func (r *reads) queried(pass, metric int) (*observe.Answer, error) {
	q := r.plan.passes[pass].queries[metric]
	answer := r.queries[q].get()
	switch {
	case answer == nil:
		return nil, fmt.Errorf("query source %q: %w", r.plan.queries[q].source.Name, r.tooLate(pass))
	case answer.err != nil:
		return nil, answer.err
	}
	return &answer.found, nil
}

// tooLate is the error of a read that a pass could not wait for, although others do.
func (r *reads) tooLate(pass int) error { return readLimit(r.plan.passes[pass].timeout) }

// isFleetOut reports whether the fleet of a pass could not be read at all, or not in the
// time of any pass.
func (r *reads) isFleetOut(pass int) bool {
	read := &r.snapshots[r.waits[pass].snapshot]
	if answer := read.get(); answer != nil {
		return answer.err != nil
	}
	return read.late.Load()
}

// isOut reports whether nothing could be read from where a failed metric of a pass
// comes from. It is not sure while other queries of a source are under way that was
// not told to be out.
func (r *reads) isOut(pass, metric int) (out, sure bool) {
	plan := &r.plan.passes[pass]
	q := plan.queries[metric]
	if q < 0 {
		answer := r.samples[plan.samples].get()
		return answer != nil && answer.err != nil, true
	}
	if answer := r.queries[q].get(); answer != nil && answer.err == nil {
		return false, true
	}
	batch := &r.batches[r.plan.queries[q].batch]
	switch {
	case batch.answered.Load():
		return false, true
	case batch.left.Load() == 0 || r.plan.queries[q].source.Problem.Exists():
		return true, true
	}
	return false, false
}

// reportFleet keeps whether a fleet can be read, and logs when that changes or has
// another cause: one line for all the autoscalers that the read was for.
func (r *reads) reportFleet(h *adapters.Fleet, autoscalers int, err error) {
	if r.look || r.runContext.Err() != nil {
		return // or the stop cut the read off
	}
	news, fields := h.Problem.Set(err)
	fields = append([]zap.Field{zap.String("fleet", h.Name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		r.log.Warn("fleet cannot be read", append(fields, zap.NamedError("err", err))...)
	case news:
		r.log.Info("fleet can be read again", fields...)
	}
	if news {
		trouble.LogPanic(r.log, "fleet", h.Name, err)
		r.tellOutage(notify.Event{Fleet: h.Name}, "the fleet can be read", err)
	}
}

// reportSamples logs that the samples of a fleet cannot be read, for another cause,
// or again.
func (r *reads) reportSamples(h *adapters.Fleet, autoscalers int, err error) {
	if r.look || r.runContext.Err() != nil {
		return // or the stop cut the read off
	}
	news, fields := h.Unsampled.Set(err)
	fields = append([]zap.Field{zap.String("fleet", h.Name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		r.log.Warn("samples of the fleet cannot be read", append(fields, zap.NamedError("err", err))...)
	case news:
		r.log.Info("samples of the fleet can be read again", fields...)
	}
	if news {
		r.tellOutage(notify.Event{Fleet: h.Name}, "samples of the fleet can be read", err)
	}
}

// reportSource keeps whether a source answers, and logs when that changes or has
// another cause: one line for all the autoscalers that ask it.
func (r *reads) reportSource(h *adapters.Source, autoscalers int, err error) {
	if r.look || r.runContext.Err() != nil {
		return // or the stop cut the queries off
	}
	news, fields := h.Problem.Set(err)
	fields = append([]zap.Field{zap.String("source", h.Name), zap.Int("autoscalers", autoscalers)}, fields...)
	switch {
	case news && err != nil:
		r.log.Warn("source does not answer", append(fields, zap.NamedError("err", err))...)
	case news:
		r.log.Info("source answers again", fields...)
	}
	if news {
		trouble.LogPanic(r.log, "source", h.Name, err)
		r.tellOutage(notify.Event{Source: h.Name}, "the source answers", err)
	}
}

// reportWarnings logs what a source says beside an answer, once for each query.
func (r *reads) reportWarnings(h *adapters.Source, query string, warnings []string) {
	if r.look {
		return
	}
	for _, warning := range h.NewWarnings(query, warnings) {
		r.log.Warn("source warns", zap.String("source", h.Name), zap.String("query", query), zap.String("warning", warning))
	}
}
