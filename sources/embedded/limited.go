package embedded

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// samplesPerSeries is how many samples take as much memory as the engine needs for
// a series itself, which it gathers all of before it counts the first sample.
const samplesPerSeries = 32

// limited is a database of which a selector may select so many series. One more is
// an error as of too many samples.
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

// Select returns the series that the matchers select, up to the limit.
func (q limitedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &limitedSeries{SeriesSet: q.Querier.Select(ctx, sorted, hints, matchers...), left: q.series}
}

type limitedSeries struct {
	storage.SeriesSet
	left int64
}

// Next moves on to the next series.
func (s *limitedSeries) Next() bool {
	if s.left < 0 || !s.SeriesSet.Next() {
		return false
	}
	s.left--
	return s.left >= 0
}

// Err returns why there is no next series.
func (s *limitedSeries) Err() error {
	if s.left < 0 {
		return promql.ErrTooManySamples("series of a selector")
	}
	return s.SeriesSet.Err()
}
