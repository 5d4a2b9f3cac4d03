package embedded

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// maxLabelGrowth limits the growth of a label by label_replace and label_join.
const maxLabelGrowth = 64

// cost is the cost of a query that the engine does not count as samples.
type cost struct {
	// steps is the number of steps of its subqueries, for which the engine allocates memory
	// before the evaluation.
	steps int64
	// growth is the maximum growth of a label as a factor.
	growth float64
}

// costOf returns the cost of a query; zero for an invalid query, which the engine rejects.
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

// labelGrowth returns the growth of a label by a call.
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

// samplesPerSeries is the memory of a series in samples. The engine collects all series before it
// counts samples.
const samplesPerSeries = 32

// limited is a database with a limit of series for each selector. Exceeding it is the same error
// as too many samples.
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
