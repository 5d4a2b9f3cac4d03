package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/hpad/hpad/sources"
)

// maxAnnotations limits the warnings and, separately, the infos of one result.
const maxAnnotations = 10

// Query evaluates an instant query over the stored samples. It returns an error if the result
// is a range of samples, a string or a native histogram. NaN and infinite values are allowed.
// An error that the query itself causes is a sources.QueryError.
func (s *Source) Query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, query, at)
	if err != nil {
		return sources.Vector{}, fmt.Errorf("source %q: query %q: %w", s.name, query.Text, err)
	}
	if len(vector.Series) == 0 && !query.Diagnosis {
		vector.Warnings = append(vector.Warnings, s.missing(query.Text)...)
	}
	return vector, nil
}

// missing returns the first problem because of which a query may lack series. Without it, an empty
// result of failed scrapes would count as zero with empty = "zero".
func (s *Source) missing(text string) []string {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil
	}
	selectors := parser.ExtractSelectors(expr)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if problem := p.missing(selectors); problem != "" {
			return []string{problem}
		}
	}
	return nil
}

func (s *Source) query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	opened, err := s.acquire()
	if err != nil {
		return sources.Vector{}, err
	}
	defer s.queries.Done()
	if opened.trial == nil {
		return s.limited(ctx, opened, query, opened.clock.Monotonic(at), at)
	}
	return opened.trial.query(ctx, opened, query, func(query sources.Query, now time.Time) (sources.Vector, error) {
		return s.limited(ctx, opened, query, opened.clock.Monotonic(now), at)
	})
}

// limited first evaluates with the limit of a small query. If the query exceeds it, it waits for
// the budget of a large query.
func (s *Source) limited(ctx context.Context, opened *store, query sources.Query, monotonic, at time.Time) (sources.Vector, error) {
	steps := subquerySteps(query.Text)
	if steps > int64(s.cfg.MaxSamples) {
		return sources.Vector{}, &sources.QueryError{Err: fmt.Errorf("the subqueries have %d steps, more than max_samples = %d; use a longer step or a shorter range", steps, s.cfg.MaxSamples)}
	}
	claim, err := s.env.Samples.Claim(ctx)
	if err != nil {
		return sources.Vector{}, err
	}
	defer claim.Release()
	if s.small != nil {
		if query.Diagnosis || steps <= s.env.Samples.Share() {
			vector, err := s.evaluate(ctx, s.small, opened.db, query, monotonic, at)
			if query.Diagnosis || !errors.As(err, new(promql.ErrTooManySamples)) {
				return vector, err
			}
		}
		if err := claim.Enlarge(ctx, int64(s.cfg.MaxSamples)); err != nil {
			return sources.Vector{}, err
		}
	}
	return s.evaluate(ctx, s.engine, opened.db, query, monotonic, at)
}

// evaluate runs a query at the time monotonic; the values of the result have the wall clock time at. It
// copies the result, because the engine reuses its memory.
func (s *Source) evaluate(ctx context.Context, engine *promql.Engine, store storage.Queryable, query sources.Query, monotonic, at time.Time) (sources.Vector, error) {
	var options promql.QueryOpts // nil means the engine's own lookback
	if query.MaxAge > 0 {
		options = promql.NewPrometheusQueryOpts(false, query.MaxAge)
	}
	run, err := engine.NewInstantQuery(ctx, store, options, query.Text, monotonic)
	if err != nil {
		return sources.Vector{}, &sources.QueryError{Err: err}
	}
	defer run.Close()
	result := run.Exec(ctx)
	if result.Err != nil {
		if ctx.Err() != nil {
			return sources.Vector{}, fmt.Errorf("%w: %w", context.Cause(ctx), result.Err)
		}
		if errors.As(result.Err, new(promql.ErrStorage)) {
			return sources.Vector{}, result.Err
		}
		return sources.Vector{}, &sources.QueryError{Err: result.Err}
	}
	collector, err := s.env.Answers.Collect(ctx, query)
	if err != nil {
		return sources.Vector{}, err
	}
	if err := collect(collector, result.Value, at.Sub(monotonic)); err != nil {
		collector.Release()
		return sources.Vector{}, err
	}
	if len(result.Warnings) == 0 {
		return collector.Vector(nil), nil
	}
	warnings, infos := result.Warnings.AsStrings(query.Text, maxAnnotations, maxAnnotations)
	slices.Sort(warnings)
	slices.Sort(infos)
	vector := collector.Vector(warnings)
	vector.Infos = infos
	return vector, nil
}

// Lookback returns the configured lookback_delta.
func (s *Source) Lookback() time.Duration { return s.cfg.LookbackDelta }

// acquire returns the store and keeps it open until the query is done.
func (s *Source) acquire() (*store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil, ErrNotStarted
	}
	s.queries.Add(1)
	return s.store, nil
}

// collect passes a result to a collector and adds by to its times.
func collect(collector *sources.Collector, result parser.Value, by time.Duration) error {
	switch value := result.(type) {
	case promql.Scalar:
		return collector.Add(value.V, time.UnixMilli(value.T).Add(by))
	case promql.Vector:
		for _, sample := range value {
			if sample.H != nil {
				return &sources.QueryError{Err: fmt.Errorf("result contains a native histogram for %s, want numbers: use histogram_quantile or a similar function", sample.Metric)}
			}
			var err error
			sample.Metric.Range(func(label labels.Label) {
				err = cmp.Or(err, collector.Label([]byte(label.Name), []byte(label.Value)))
			})
			if err == nil {
				err = collector.Add(sample.F, time.UnixMilli(sample.T).Add(by))
			}
			if err != nil {
				return err
			}
		}
		return nil
	case promql.Matrix:
		return &sources.QueryError{Err: errors.New("result is a range of samples (matrix), want one value for each series: use a function such as rate or avg_over_time")}
	default:
		return &sources.QueryError{Err: fmt.Errorf("result is a %s, want a vector or a scalar", value.Type())}
	}
}

// subquerySteps returns the number of steps of a query's subqueries. The engine allocates memory
// for all steps before it counts samples. It returns 0 for an invalid query, which the engine
// rejects.
func subquerySteps(text string) (steps int64) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return 0
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		subquery, ok := node.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		span := subquery.Range
		for _, outer := range path {
			if outer, ok := outer.(*parser.SubqueryExpr); ok {
				span += outer.Range
			}
		}
		steps += int64(span/cmp.Or(max(subquery.Step, 0), defaultStep)) + 1
		if steps < 0 || span < 0 { // overflow
			steps = math.MaxInt64
		}
		return nil
	})
	return steps
}
