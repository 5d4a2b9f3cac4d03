package round

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hpad/hpad/daemon/adapters"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/observe"
	"github.com/hpad/hpad/daemon/problem"
	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
)

// snapshotRead is one read of a fleet's targets.
type snapshotRead struct {
	future[adapters.Read]
	plan *plannedRead
	// active is the read. begun reports whether this round started it, rather than an earlier
	// round.
	active *adapters.Read
	begun  bool
	// late reports whether the timeouts of all passes that use the read have expired.
	late atomic.Bool
}

type samplesResult struct {
	samples map[targets.Ref]targets.Samples
	err     error
}

// queryRead is one query. Its last user releases its result, because the result can be large and a
// round lasts as long as its slowest write.
type queryRead struct {
	future[queryResult]
	// users counts the metrics that still need the result, plus 1 until the query has ended.
	users atomic.Int32
}

type queryResult struct {
	response observe.Response
	err      error
	// empty reports whether the result contains no series and no reason for it.
	empty bool
}

func (q *queryRead) release() {
	if q.users.Add(-1) == 0 {
		q.get().response.Release()
	}
}

// start starts all reads. The adapters stay open until both the reads and the passes have
// ended, because a pass writes after its reads.
func (r *round) start() {
	read := func(uses *adapters.UseCount, read func(context.Context)) {
		uses.Begin() // for the passes
		uses.Begin() // for the read
		r.uses = append(r.uses, uses)
		r.env.readers.Go(func() {
			defer uses.End()
			read(r.env.RunContext)
		})
	}
	for i := range r.snapshots {
		s := &r.snapshots[i]
		s.plan = &r.plan.snapshots[i]
		s.active, s.begun = s.plan.fleet.Snapshots.Begin(s.plan.refs, r.lastKnown(s.plan.passes))
		read(&s.plan.fleet.Uses, func(ctx context.Context) { r.readSnapshot(ctx, s) })
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

// awaitTimeout makes passes ready after their timeout, because a shared read can take longer. For
// these passes, reads that have not ended have failed.
func (r *round) awaitTimeout(timeout time.Duration, passes []int) {
	timer := time.NewTimer(timeout + partialDelay(timeout) + adapters.CallGrace*3/2) // later than a read with the same timeout
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.over:
		return
	case <-r.env.RunContext.Done():
		return
	}
	for i := range r.snapshots {
		if s := &r.snapshots[i]; s.plan.timeout == timeout && s.get() == nil {
			s.late.Store(true)
			r.reportFleet(s, fmt.Errorf("read fleet %q: %w", s.plan.fleet.Name, readLimit(timeout)))
		}
	}
	for _, i := range passes {
		r.passes[i].becomeReady()
	}
}

// lastKnown returns the time of the latest information about the targets of the given passes. An
// active read that started earlier does not include writes since then.
func (r *round) lastKnown(passes []int) (latest time.Time) {
	for _, i := range passes {
		if p := &r.passes[i]; !p.taken.Load() {
			latest = clock.Later(latest, p.autoscaler.known)
		}
	}
	return latest
}

// readSnapshot performs a read, or waits for the active read of an earlier round. The data of that
// read is not older than the earlier round.
func (r *round) readSnapshot(ctx context.Context, s *snapshotRead) {
	if s.begun {
		fleet := s.plan.fleet
		readings, err := r.snapshot(ctx, s.plan)
		fleet.Keep(readings)
		r.reportFleet(s, err)
		fleet.Snapshots.End(s.active, readings, err)
	}
	select {
	case <-s.active.Done:
		s.set(s.active, func() { r.arrived(s.plan.passes) })
	case <-r.over:
	}
}

func (r *round) snapshot(ctx context.Context, read *plannedRead) (map[targets.Ref]targets.Reading, error) {
	limit := readLimit(read.timeout)
	if read.fleet.Timeout > read.timeout {
		limit = &limitError{read.fleet.Timeout, "the fleet's timeout"}
	}
	outer, cancel := context.WithTimeoutCause(ctx, limit.limit+partialDelay(limit.limit), limit)
	defer cancel()
	return call(outer, r.env, read.fleet, read.fleet.Snapshots.Gate, callSnapshot, fmt.Sprintf("read fleet %q", read.fleet.Name),
		func(context.Context) (map[targets.Ref]targets.Reading, error) {
			inner, cancel := context.WithTimeoutCause(ctx, limit.limit, limit)
			defer cancel()
			readings, err := read.fleet.Snapshot(inner, read.refs)
			return readings, withLimit(inner, err)
		})
}

// call calls a fleet within the limits of a gate and counts the call in the metrics. It does not
// wait for a call that ignores its context. Errors that do not come from the fleet get the prefix
// what.
func call[T any](
	ctx context.Context, e *Env, fleet *adapters.Fleet, gate adapters.Gate, metric, what string, do func(context.Context) (T, error),
) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 2) // for the call and for its timeout
	gate.Run(ctx, 1, func(ctx context.Context, _ int) {
		var r result
		started := time.Now()
		r.err = guard.Call(func() (err error) {
			r.value, err = do(ctx)
			return withLimit(ctx, err)
		})
		if _, panicked := errors.AsType[*guard.Panic](r.err); panicked {
			r.err = fmt.Errorf("%s: %w", what, r.err)
		}
		e.Metrics.FleetCall(fleet.Name, metric, time.Since(started), r.err)
		results <- r
	}, func(_ int, err error) { results <- result{err: fmt.Errorf("%s: %w", what, err)} })
	r := <-results
	return r.value, r.err
}

func (r *round) readSamples(ctx context.Context, i int) {
	read := &r.plan.samples[i]
	fleet, what := read.fleet, fmt.Sprintf("read samples of fleet %q", read.fleet.Name)
	ctx, cancel := context.WithTimeoutCause(ctx, read.timeout, readLimit(read.timeout))
	defer cancel()
	samples, err := call(ctx, r.env, fleet, fleet.Samples, callSamples, what, func(ctx context.Context) (map[targets.Ref]targets.Samples, error) {
		if fleet.Sampler == nil {
			return nil, fmt.Errorf("%s: this kind of fleet does not measure its instances; give the metric a source and a query", what)
		}
		samples, err := fleet.Sampler.Samples(ctx, read.refs)
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
		return samples, err
	})
	r.samples[i].set(&samplesResult{samples, err}, func() {
		r.report(outage{
			problem: &fleet.Unsampled, field: zap.String("fleet", fleet.Name), event: notify.Event{Fleet: fleet.Name},
			failed: "fleet samples cannot be read", recovered: "fleet samples recovered",
		}, len(read.passes), err)
		r.arrived(read.passes)
	})
}

// runQueries runs the queries of a batch. A pass whose query failed waits for the whole batch,
// which shows whether the source itself failed: it did not respond to any query. A query that the
// source rejects is an error of the autoscaler, not of the source.
func (r *round) runQueries(ctx context.Context, i int) {
	batch, responded := &r.plan.batches[i], &r.responded[i]
	source := batch.source
	ctx, cancel := context.WithTimeoutCause(ctx, batch.timeout, readLimit(batch.timeout))
	defer cancel()
	set := func(i int, vector sources.Vector, err error) {
		planned, q := &r.plan.queries[batch.queries[i]], &r.queries[batch.queries[i]]
		next := &queryResult{response: observe.Response{Vector: vector}, err: err, empty: err == nil && len(vector.Series) == 0 && vector.Absence == ""}
		if next.response.Absence = vector.Absence; next.empty {
			next.response.Absence = source.Cause(&planned.query)
		}
		first := q.set(next, func() {
			if err == nil && !next.empty {
				source.Answered(&planned.query)
			}
			if _, rejected := errors.AsType[*sources.QueryError](err); err == nil || rejected || errors.Is(err, sources.ErrBudget) {
				responded.Store(true)
			}
			if err == nil {
				r.arrived(planned.passes)
			}
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
		err := guard.Call(func() (err error) {
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
	if !responded.Load() {
		err = r.queries[batch.queries[0]].get().err
	}
	r.report(outage{
		problem: &source.Problem, field: zap.String("source", source.Name), event: notify.Event{Source: source.Name},
		failed: "source does not respond", recovered: "source has recovered",
	}, batch.autoscalers, err)
	for _, q := range batch.queries {
		if r.queries[q].get().err != nil {
			r.arrived(r.plan.queries[q].passes)
		}
	}
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

func (r *round) reportFleet(s *snapshotRead, err error) {
	fleet := s.plan.fleet
	r.report(outage{
		problem: &fleet.Problem, field: zap.String("fleet", fleet.Name), event: notify.Event{Fleet: fleet.Name},
		failed: "fleet cannot be read", recovered: "fleet has recovered",
	}, len(s.plan.passes), err)
}

// outage describes the failure of a fleet or a source.
type outage struct {
	problem *problem.Problem
	field   zap.Field
	event   notify.Event
	// failed and recovered are log messages.
	failed, recovered string
}

// report logs when a fleet or a source fails, fails for a different cause, or recovers, and
// notifies the receivers. It sends one log line and one notification for all affected autoscalers.
func (r *round) report(o outage, autoscalers int, err error) {
	if r.readOnly || r.env.RunContext.Err() != nil { // the stop might have interrupted the read
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
	r.env.Receivers.Notify(&o.event)
}

// reportWarnings logs the warnings of a source, each once per query.
func (r *round) reportWarnings(source *adapters.Source, query string, warnings []string) {
	if r.readOnly {
		return
	}
	for _, warning := range source.NewWarnings(query, warnings) {
		r.env.Log.Warn("source warning", zap.String("source", source.Name), zap.String("query", query), zap.String("warning", warning))
	}
}

// Discover returns the labeled targets of a fleet. Its timeout is the read timeout for the sync
// period. It does not wait for a call that ignores its context.
func (e *Env) Discover(ctx context.Context, h *adapters.Fleet, period time.Duration) ([]targets.Discovered, error) {
	timeout := readTimeout(period)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, readLimit(timeout))
	defer cancel()
	return call(ctx, e, h, h.Discoveries, callDiscover, fmt.Sprintf("discover targets of fleet %q", h.Name), func(ctx context.Context) ([]targets.Discovered, error) {
		h.Uses.Begin()
		defer h.Uses.End()
		return h.Discoverer.Discover(ctx)
	})
}

// Read reads one target. It does not wait for a call that ignores its context.
func (e *Env) Read(ctx context.Context, h *adapters.Fleet, ref targets.Ref) (targets.Reading, error) {
	what := fmt.Sprintf("read target %s", ref)
	return call(ctx, e, h, h.Snapshots.Gate, callSnapshot, what, func(ctx context.Context) (targets.Reading, error) {
		h.Uses.Begin()
		defer h.Uses.End()
		readings, err := h.Snapshot(ctx, []targets.Ref{ref})
		if err != nil {
			return targets.Reading{}, err
		}
		reading, ok := readings[ref]
		if !ok {
			return reading, fmt.Errorf("%s: missing from the fleet's response", what)
		}
		return reading, reading.Err
	})
}
