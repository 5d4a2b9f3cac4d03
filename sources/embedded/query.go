package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
	return vector, nil
}

// query first evaluates with the limit of a small query. If the query exceeds it, it waits for
// the budget of a large query.
func (s *Source) query(ctx context.Context, query sources.Query, at time.Time) (sources.Vector, error) {
	held, err := s.hold()
	if err != nil {
		return sources.Vector{}, err
	}
	defer s.queries.Done()

	cost := costOf(query.Text)
	if err := cost.check(s.cfg.MaxSamples); err != nil {
		return sources.Vector{}, &sources.QueryError{Err: err}
	}
	claim, err := s.env.Samples.Claim(ctx)
	if err != nil {
		return sources.Vector{}, err
	}
	defer claim.Release()
	switch {
	case s.few == nil:
	case query.Diagnosis || cost.steps <= s.env.Samples.Share():
		vector, err := s.evaluate(ctx, s.few, limited{held.db, s.env.Samples.Share() / samplesPerSeries}, query, held.clock.Steady(at), at)
		if query.Diagnosis || !errors.As(err, new(promql.ErrTooManySamples)) {
			return vector, err
		}
		fallthrough
	default:
		if err := claim.Enlarge(ctx, int64(s.cfg.MaxSamples)); err != nil {
			return sources.Vector{}, err
		}
	}
	return s.evaluate(ctx, s.engine, held.db, query, held.clock.Steady(at), at)
}

// evaluate runs a query at a time of the steady clock, which corresponds to the wall clock time
// at. It copies the result, because the engine reuses its memory.
func (s *Source) evaluate(ctx context.Context, engine *promql.Engine, store storage.Queryable, query sources.Query, steady, at time.Time) (sources.Vector, error) {
	var options promql.QueryOpts // nil means the engine's own lookback
	if query.MaxAge > 0 {
		options = promql.NewPrometheusQueryOpts(false, query.MaxAge)
	}
	run, err := engine.NewInstantQuery(ctx, store, options, query.Text, steady)
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
	if err := collect(collector, result.Value, at.Sub(steady)); err != nil {
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

// hold returns the store and keeps it open until the query is done.
func (s *Source) hold() (*store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil, ErrNotStarted
	}
	s.queries.Add(1)
	return s.store, nil
}

// collect passes a result to a collector, with its times shifted.
func collect(collector *sources.Collector, result parser.Value, by time.Duration) error {
	switch value := result.(type) {
	case promql.Scalar:
		return collector.Add(value.V, time.UnixMilli(value.T).Add(by))
	case promql.Vector:
		for _, sample := range value {
			if sample.H != nil {
				return &sources.QueryError{Err: fmt.Errorf("result has a native histogram for %s, want numbers: use histogram_quantile or a similar function", sample.Metric)}
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

// maxLabelGrowth limits how much label_replace and label_join may enlarge a label, as a factor.
const maxLabelGrowth = 64

// cost is the part of a query's cost that the engine does not count as samples.
type cost struct {
	// steps is the number of steps of its subqueries, for which the engine allocates memory
	// before the evaluation.
	steps int64
	// growth is the maximum factor by which a label may grow.
	growth float64
}

// costOf returns the cost of a query. It returns zero for an invalid query, which the engine
// rejects.
func costOf(text string) cost {
	c := cost{growth: 1}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return c
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		span, growth := time.Duration(0), 1.0
		for _, outer := range path {
			if subquery, ok := outer.(*parser.SubqueryExpr); ok {
				span += subquery.Range
			}
			growth *= labelGrowth(outer)
		}
		if subquery, ok := node.(*parser.SubqueryExpr); ok {
			step := subquery.Step
			if step <= 0 {
				step = defaultStep
			}
			c.steps += int64((span+subquery.Range)/step) + 1
			if c.steps < 0 || span < 0 {
				c.steps = math.MaxInt64
			}
		}
		c.growth = max(c.growth, growth*labelGrowth(node))
		return nil
	})
	return c
}

// labelGrowth returns the factor by which a call may enlarge a label.
func labelGrowth(node parser.Node) float64 {
	call, ok := node.(*parser.Call)
	if !ok {
		return 1
	}
	switch call.Func.Name {
	case "label_replace":
		if replacement, ok := call.Args[2].(*parser.StringLiteral); ok {
			return float64(max(1, strings.Count(replacement.Val, "$")))
		}
	case "label_join":
		return float64(max(1, len(call.Args)-3))
	}
	return 1
}

func (c cost) check(maxSamples int) error {
	switch {
	case c.steps > int64(maxSamples):
		return fmt.Errorf("its subqueries have %d steps, more than max_samples = %d; give them a longer step or a shorter range", c.steps, maxSamples)
	case c.growth > maxLabelGrowth:
		return fmt.Errorf("its calls of label_replace and label_join could make a label %.0f times longer, and %d times is the most", c.growth, maxLabelGrowth)
	}
	return nil
}

// samplesPerSeries is the memory of a series, expressed in samples. The engine collects all
// series before it counts samples.
const samplesPerSeries = 32

// limited is a database that limits the number of series for each selector. Exceeding the limit
// returns the same error as too many samples.
type limited struct {
	storage.Queryable
	series int64
}

// Querier returns a querier with the limit.
func (l limited) Querier(from, to int64) (storage.Querier, error) {
	querier, err := l.Queryable.Querier(from, to)
	if err != nil {
		return nil, err
	}
	return limitedQuerier{querier, l.series}, nil
}

type limitedQuerier struct {
	storage.Querier
	series int64
}

// Select returns the selected series, up to the limit.
func (q limitedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &limitedSeries{SeriesSet: q.Querier.Select(ctx, sorted, hints, matchers...), left: q.series}
}

type limitedSeries struct {
	storage.SeriesSet
	left int64
}

// Next advances to the next series.
func (s *limitedSeries) Next() bool {
	if s.left < 0 || !s.SeriesSet.Next() {
		return false
	}
	s.left--
	return s.left >= 0
}

// Err returns the error that ended the iteration.
func (s *limitedSeries) Err() error {
	if s.left < 0 {
		return promql.ErrTooManySamples("series of a selector")
	}
	return s.SeriesSet.Err()
}
