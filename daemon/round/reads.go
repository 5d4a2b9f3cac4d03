package round

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
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
)

// snapshotRead is one read of a fleet's targets.
type snapshotRead struct {
	future[adapters.Read]
	fleet *adapters.Fleet
	refs  []targets.Ref
	// passes are the indices of the passes that wait for the read. timeout is their longest
	// timeout.
	passes  []int
	timeout time.Duration
	// shared is an active read of an earlier round that includes all targets, or nil.
	shared *adapters.Read
	// late reports whether the timeout of all passes has expired.
	late atomic.Bool
}

type samplesResult struct {
	samples map[targets.Ref]targets.Samples
	err     error
}

// queryRead is one query. The last user releases its result, because the result may be large and a
// round may last as long as its slowest write.
type queryRead struct {
	future[queryResult]
	// users counts the metrics that may still read the result, plus 1 until the query has ended.
	users atomic.Int32
}

type queryResult struct {
	answer observe.Answer
	err    error
	// empty reports whether the result contains no series.
	empty bool
}

func (q *queryRead) release() {
	if q.users.Add(-1) == 0 {
		q.get().answer.Release()
	}
}

// batchState records whether a source responds. left counts the queries that have not ended.
// responded reports whether the source has responded to any query.
type batchState struct {
	left      atomic.Int32
	responded atomic.Bool
}

// ended records that a query has ended. A query that the source rejects is an error of the
// autoscaler. The source itself fails if it responds to no query at all.
func (b *batchState) ended(err error) {
	_, rejected := errors.AsType[*sources.QueryError](err)
	if err == nil || rejected || errors.Is(err, sources.ErrBudget) {
		b.responded.Store(true)
	}
	b.left.Add(-1)
}

// start starts all reads. The adapters stay open until both the reads and the passes have
// ended, because a pass writes after its reads.
func (r *round) start() {
	read := func(uses *adapters.Uses, read func(context.Context)) {
		uses.Begin() // for the passes
		uses.Begin() // for the read
		r.uses = append(r.uses, uses)
		r.env.readers.Go(func() {
			defer uses.End()
			read(r.env.RunContext)
		})
	}
	for i := range r.plan.snapshots {
		r.shareSnapshot(i)
	}
	for i := range r.snapshots {
		if s := &r.snapshots[i]; len(s.passes) > 0 {
			read(&s.fleet.Uses, func(ctx context.Context) { r.readSnapshot(ctx, s) })
		}
	}
	for i := range r.plan.samples {
		read(&r.plan.samples[i].fleet.Uses, func(ctx context.Context) { r.readSamples(ctx, i) })
	}
	for i := range r.plan.batches {
		read(&r.plan.batches[i].source.Uses, func(ctx context.Context) { r.runQueries(ctx, i) })
	}
	for timeout, passes := range r.plan.byTimeout {
		r.env.readers.Go(func() { r.awaitTimeout(timeout, passes) })
	}
}

// awaitTimeout makes passes ready after their timeout, because a shared read may take longer. For
// these passes, the reads that have not ended have failed.
func (r *round) awaitTimeout(timeout time.Duration, passes []int) {
	timer := time.NewTimer(timeout + partialDelay(timeout) + adapters.CallGrace*3/2) // after a read with the same timeout
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.over:
		return
	case <-r.env.RunContext.Done():
		return
	}
	for i := range r.snapshots {
		if s := &r.snapshots[i]; len(s.passes) > 0 && s.timeout == timeout && s.get() == nil {
			s.late.Store(true)
			r.reportFleet(s, fmt.Errorf("read fleet %q: %w", s.fleet.Name, readLimit(timeout)))
		}
	}
	for _, i := range passes {
		r.passes[i].becomeReady()
	}
}

// shareSnapshot determines for which read of a fleet each pass waits. It reuses an active read of
// an earlier round, whose data is at least as new as that round. If hpad has newer information
// about a target, for example because it has scaled the target since, it reads that target
// separately.
func (r *round) shareSnapshot(i int) {
	read, s, own := &r.plan.snapshots[i], &r.snapshots[i], &r.snapshots[len(r.plan.snapshots)+i]
	s.fleet, s.refs, s.passes, s.timeout = read.fleet, read.refs, read.passes, read.timeout
	own.fleet, own.timeout = read.fleet, read.timeout
	s.shared = read.fleet.Snapshots.Covering(read.refs)
	for at, pass := range read.passes {
		p := &r.passes[pass]
		p.snapshot = s
		if s.shared != nil && !p.taken.Load() && p.autoscaler.known.After(s.shared.Began) {
			own.refs, own.passes = append(own.refs, read.refs[at]), append(own.passes, pass)
			p.snapshot = own
		}
	}
	if len(own.passes) > 0 {
		s.passes = slices.DeleteFunc(slices.Clone(s.passes), func(pass int) bool { return r.passes[pass].snapshot != s })
	}
}

// readSnapshot reads targets, unless a read of an earlier round includes them.
func (r *round) readSnapshot(ctx context.Context, s *snapshotRead) {
	set := func(read *adapters.Read) { s.set(read, func() { r.arrived(s.passes) }) }
	if s.shared != nil && !r.awaitRead(s.shared) {
		return
	}
	if s.shared != nil && s.shared.Err == nil {
		set(s.shared)
		return
	}
	active, begun := s.fleet.Snapshots.Begin(s.refs, s.shared)
	if !begun {
		if r.awaitRead(active) {
			set(active)
		}
		return
	}
	limit := readLimit(s.timeout)
	if s.fleet.Timeout > s.timeout {
		limit = &limitError{s.fleet.Timeout, "the fleet's timeout"}
	}
	outer, cancel := context.WithTimeoutCause(ctx, limit.limit+partialDelay(limit.limit), limit)
	defer cancel()
	var once sync.Once
	end := func(readings map[targets.Ref]targets.Reading, err error) {
		once.Do(func() {
			s.fleet.Keep(readings)
			r.reportFleet(s, err)
			s.fleet.Snapshots.End(active, readings, err)
			set(active)
		})
	}
	s.fleet.Snapshots.Run(outer, 1, func(context.Context, int) {
		var readings map[targets.Ref]targets.Reading
		inner, cancel := context.WithTimeoutCause(ctx, limit.limit, limit)
		defer cancel()
		started := time.Now()
		err := problem.Guard(func() (err error) {
			readings, err = s.fleet.Snapshot(inner, s.refs)
			return withLimit(inner, err)
		})
		if _, panicked := errors.AsType[*problem.Panic](err); panicked { // other errors name the fleet
			err = fmt.Errorf("read fleet %q: %w", s.fleet.Name, err)
		}
		r.env.Metrics.FleetCall(s.fleet.Name, callSnapshot, time.Since(started), err)
		end(readings, err)
	}, func(_ int, err error) { end(nil, fmt.Errorf("read fleet %q: %w", s.fleet.Name, err)) })
}

// awaitRead waits for a read of another round. It returns false if all passes of this round end
// first.
func (r *round) awaitRead(read *adapters.Read) bool {
	select {
	case <-read.Done:
		return true
	case <-r.over:
		return false
	}
}

func (r *round) readSamples(ctx context.Context, i int) {
	read := &r.plan.samples[i]
	ctx, cancel := context.WithTimeoutCause(ctx, read.timeout, readLimit(read.timeout))
	defer cancel()
	set := func(samples map[targets.Ref]targets.Samples, err error) {
		if err != nil {
			err = fmt.Errorf("read samples of fleet %q: %w", read.fleet.Name, err)
		}
		r.samples[i].set(&samplesResult{samples, err}, func() {
			r.report(outage{
				problem: &read.fleet.Unsampled, field: zap.String("fleet", read.fleet.Name), event: notify.Event{Fleet: read.fleet.Name},
				failed: "samples of the fleet cannot be read", recovered: "samples of the fleet can be read again",
			}, len(read.passes), err)
			r.arrived(read.passes)
		})
	}
	if read.fleet.Sampler == nil {
		set(nil, errors.New("this kind of fleet does not measure its instances; give the metric a source and a query"))
		return
	}
	read.fleet.Samples.Run(ctx, 1, func(ctx context.Context, _ int) {
		var samples map[targets.Ref]targets.Samples
		started := time.Now()
		err := problem.Guard(func() (err error) {
			samples, err = read.fleet.Sampler.Samples(ctx, read.refs)
			return withLimit(ctx, err)
		})
		r.env.Metrics.FleetCall(read.fleet.Name, callSamples, time.Since(started), err)
		set(samples, err)
	}, func(_ int, err error) { set(nil, err) })
}

func (r *round) runQueries(ctx context.Context, i int) {
	batch, state := &r.plan.batches[i], &r.batches[i]
	source := batch.source
	ctx, cancel := context.WithTimeoutCause(ctx, batch.timeout, readLimit(batch.timeout))
	defer cancel()
	set := func(i int, vector sources.Vector, err error) {
		planned, q := &r.plan.queries[batch.queries[i]], &r.queries[batch.queries[i]]
		next := &queryResult{answer: observe.Answer{Vector: vector}, err: err, empty: err == nil && len(vector.Series) == 0}
		if next.empty {
			next.answer.Absence = source.Cause(&planned.query)
		}
		first := q.set(next, func() {
			if err == nil && !next.empty {
				source.Answered(&planned.query)
			}
			state.ended(err)
			r.arrived(planned.passes)
			q.release()
		})
		if !first {
			vector.Release()
		}
	}
	source.Queries.Run(ctx, len(batch.queries), func(ctx context.Context, i int) {
		var vector sources.Vector
		query := &r.plan.queries[batch.queries[i]].query
		started := time.Now()
		err := problem.Guard(func() (err error) {
			vector, err = source.Query(ctx, *query, r.scale.Wall(r.now))
			return withLimit(ctx, err)
		})
		r.env.Metrics.Query(source.Name, time.Since(started), err)
		r.reportWarnings(source, query.Text, slices.Concat(vector.Warnings, vector.Infos))
		set(i, vector, err)
	}, func(i int, err error) {
		set(i, sources.Vector{}, fmt.Errorf("query source %q: %w", source.Name, err))
	})
	var err error
	if !state.responded.Load() {
		err = r.queries[batch.queries[0]].get().err
	}
	r.report(outage{
		problem: &source.Problem, field: zap.String("source", source.Name), event: notify.Event{Source: source.Name},
		failed: "source does not respond", recovered: "source responds again",
	}, batch.autoscalers, err)
	r.diagnose(batch)
}

// diagnose finds the causes of empty results for later rounds. No pass waits for it.
func (r *round) diagnose(batch *plannedBatch) {
	var empty []*sources.Query
	for _, q := range batch.queries {
		if result := r.queries[q].get(); result != nil && result.empty {
			empty = append(empty, &r.plan.queries[q].query)
		}
	}
	batch.source.Diagnose(r.env.RunContext, empty, r.scale.Wall(r.now))
}

// reading returns the reading of the target and the time at which the read started.
func (p *pass) reading() (_ targets.Reading, since time.Time, _ error) {
	read, target := p.snapshot.get(), p.definition.Target
	if read == nil {
		return targets.Reading{}, since, fmt.Errorf("read fleet %q: %w", p.snapshot.fleet.Name, readLimit(p.plan.timeout))
	}
	if read.Err != nil {
		return targets.Reading{}, since, read.Err
	}
	reading, ok := read.Readings[target]
	if !ok {
		return reading, since, fmt.Errorf("read target %s: missing in the fleet's response", target)
	}
	if reading.Err != nil {
		return reading, since, fmt.Errorf("read target %s: %w", target, reading.Err)
	}
	return reading, read.Began, nil
}

// sampled returns the samples of the target.
func (p *pass) sampled() (targets.Samples, error) {
	result := p.round.samples[p.plan.samples].get()
	switch {
	case result == nil:
		return targets.Samples{}, fmt.Errorf("read samples of fleet %q: %w", p.definition.Fleet.Name, readLimit(p.plan.timeout))
	case result.err != nil:
		return targets.Samples{}, result.err
	}
	return result.samples[p.definition.Target], nil
}

// queried returns the result of the query of a metric.
func (p *pass) queried(metric int) (*observe.Answer, error) {
	result := p.round.queries[p.plan.queries[metric]].get()
	switch {
	case result == nil:
		return nil, fmt.Errorf("query source %q: %w", p.definition.MetricInputs[metric].From.Name, readLimit(p.plan.timeout))
	case result.err != nil:
		return nil, result.err
	}
	return &result.answer, nil
}

// isFleetOut reports whether the read of the fleet failed, or did not end within the timeout of any
// pass.
func (p *pass) isFleetOut() bool {
	if read := p.snapshot.get(); read != nil {
		return read.Err != nil
	}
	return p.snapshot.late.Load()
}

// isOut reports whether the fleet or the source of a failed metric has an outage. sure is false if
// that depends on queries that are still active.
func (p *pass) isOut(metric int) (out, sure bool) {
	q := p.plan.queries[metric]
	if q < 0 {
		result := p.round.samples[p.plan.samples].get()
		return result != nil && result.err != nil, true
	}
	if result := p.round.queries[q].get(); result != nil && result.err == nil {
		return false, true
	}
	planned := &p.round.plan.queries[q]
	batch := &p.round.batches[planned.batch]
	switch {
	case batch.responded.Load():
		return false, true
	case batch.left.Load() == 0 || planned.source.Problem.Exists():
		return true, true
	}
	return false, false
}

func (r *round) reportFleet(s *snapshotRead, err error) {
	r.report(outage{
		problem: &s.fleet.Problem, field: zap.String("fleet", s.fleet.Name), event: notify.Event{Fleet: s.fleet.Name},
		failed: "fleet cannot be read", recovered: "fleet can be read again",
	}, len(s.passes), err)
}

// outage describes the failure of a fleet or a source.
type outage struct {
	problem *problem.Problem
	field   zap.Field
	event   notify.Event
	// failed and recovered are log messages.
	failed, recovered string
}

// report logs that a fleet or a source fails, fails for a different cause, or has recovered, and
// notifies the receivers. It does so once for all its autoscalers.
func (r *round) report(o outage, autoscalers int, err error) {
	if r.readOnly || r.env.RunContext.Err() != nil { // the stop may have interrupted the read
		return
	}
	news, fields := o.problem.Set(err)
	if !news {
		return
	}
	fields = append([]zap.Field{o.field, zap.Int("autoscalers", autoscalers)}, fields...)
	o.event.Time, o.event.Kind, o.event.Message = r.env.Clock.Scale().Wall(r.env.Clock.Now()), notify.Recovered, o.recovered
	if err == nil {
		r.env.Log.Info(o.recovered, fields...)
	} else {
		r.env.Log.Warn(o.failed, append(fields, zap.NamedError("err", err))...)
		problem.LogPanic(r.env.Log, o.field.Key, o.field.String, err)
		o.event.Kind, o.event.Message = notify.Failed, err.Error()
	}
	r.env.Receivers.Tell(&o.event)
}

// reportWarnings logs the warnings of a source, each once per query.
func (r *round) reportWarnings(source *adapters.Source, query string, warnings []string) {
	if r.readOnly {
		return
	}
	for _, warning := range source.NewWarnings(query, warnings) {
		r.env.Log.Warn("source warns", zap.String("source", source.Name), zap.String("query", query), zap.String("warning", warning))
	}
}

// Discover returns the labeled targets of a fleet. Its timeout is the read timeout for the sync
// period. It does not wait for a call that ignores its context.
func (e *Env) Discover(ctx context.Context, h *adapters.Fleet, period time.Duration) ([]targets.Discovered, error) {
	timeout := readTimeout(period)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, readLimit(timeout))
	defer cancel()
	type result struct {
		found []targets.Discovered
		err   error
	}
	results := make(chan result, 2) // one of the call, one of its timeout
	h.Discoveries.Run(ctx, 1, func(ctx context.Context, _ int) {
		h.Uses.Begin()
		defer h.Uses.End()
		started := time.Now()
		var r result
		r.err = problem.Guard(func() (err error) {
			r.found, err = h.Discoverer.Discover(ctx)
			return withLimit(ctx, err)
		})
		e.Metrics.FleetCall(h.Name, callDiscover, time.Since(started), r.err)
		results <- r
	}, func(_ int, err error) { results <- result{err: err} })
	r := <-results
	return r.found, r.err
}
