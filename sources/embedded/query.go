package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/hpad/hpad/sources"
)

// maxAnnotations bounds the remarks of the engine about one answer, of each
// severity.
const maxAnnotations = 10

// Query answers an instant query over the stored samples. A range of samples, a
// string or a native histogram is an error; NaN and infinite values are not. What is
// the query's own matter is a sources.QueryError.
func (s *Source) Query(ctx context.Context, text string, at time.Time) (sources.Vector, error) {
	vector, err := s.query(ctx, text, at)
	if err != nil {
		return sources.Vector{}, fmt.Errorf("source %q: query %q: %w", s.name, text, err)
	}
	return vector, nil
}

func (s *Source) query(ctx context.Context, text string, at time.Time) (sources.Vector, error) {
	held, err := s.hold()
	if err != nil {
		return sources.Vector{}, err
	}
	defer s.queries.Done()

	steady := held.clock.Steady(at)
	query, err := s.engine.NewInstantQuery(ctx, held.db, nil, text, steady)
	if err != nil {
		return sources.Vector{}, &sources.QueryError{Err: err}
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		if ctx.Err() != nil {
			return sources.Vector{}, fmt.Errorf("%w: %w", context.Cause(ctx), result.Err)
		}
		if errors.As(result.Err, new(promql.ErrStorage)) {
			return sources.Vector{}, result.Err
		}
		return sources.Vector{}, &sources.QueryError{Err: result.Err}
	}
	series, err := seriesOf(result)
	if err != nil {
		return sources.Vector{}, &sources.QueryError{Err: err}
	}
	for i := range series {
		series[i].At = series[i].At.Add(at.Sub(steady))
	}
	return sources.Vector{Series: series, Warnings: remarks(result.Warnings, text)}, nil
}

// hold answers the store, which stays open until the query is Done.
func (s *Source) hold() (*store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store == nil {
		return nil, ErrNotStarted
	}
	s.queries.Add(1)
	return s.store, nil
}

// seriesOf copies a result out of the memory that the engine will use again.
func seriesOf(result *promql.Result) ([]sources.Series, error) {
	switch value := result.Value.(type) {
	case promql.Scalar:
		return []sources.Series{{Value: value.V, At: time.UnixMilli(value.T)}}, nil
	case promql.Vector:
		series := make([]sources.Series, len(value))
		for i, sample := range value {
			if sample.H != nil {
				return nil, fmt.Errorf("answer has a native histogram for %s, want numbers: use histogram_quantile or another function that yields one", sample.Metric)
			}
			series[i] = sources.Series{Labels: labelMap(sample.Metric), Value: sample.F, At: time.UnixMilli(sample.T)}
		}
		return series, nil
	case promql.Matrix:
		return nil, fmt.Errorf("answer is a range of samples (matrix), want one value each: use a function such as rate or avg_over_time over it")
	default:
		return nil, fmt.Errorf("answer is a %s, want a vector or a scalar", value.Type())
	}
}

func labelMap(metric labels.Labels) map[string]string {
	if metric.IsEmpty() {
		return nil
	}
	m := make(map[string]string, metric.Len())
	metric.Range(func(label labels.Label) {
		m[label.Name] = label.Value
	})
	return m
}

func remarks(notes annotations.Annotations, text string) []string {
	if len(notes) == 0 {
		return nil
	}
	warnings, infos := notes.AsStrings(text, maxAnnotations, maxAnnotations)
	slices.Sort(warnings)
	slices.Sort(infos)
	return append(warnings, infos...)
}
