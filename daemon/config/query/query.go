// Package query judges queries in PromQL by their text, before they are sent: what
// they need that nobody has, and what their values mean.
package query

import (
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// Query is a parsed query.
type Query struct{ expr parser.Expr }

// Parse parses a query as a Prometheus server does that was started without feature
// flags.
func Parse(text string) (Query, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	return Query{expr}, err
}

// ParseFlagged parses a query as a Prometheus server does that was started with every
// feature flag of its language.
func ParseFlagged(text string) (Query, error) {
	expr, err := parser.NewParser(parser.Options{
		EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true,
	}).ParseExpr(text)
	return Query{expr}, err
}

// Unfit returns why no answer to the query has a value for each series; "" where it may
// have.
func (q Query) Unfit() string {
	switch q.expr.Type() {
	case parser.ValueTypeMatrix:
		return "answers a range of samples for each series, where one value is needed: put a function around it, as avg_over_time(…) or rate(…)"
	case parser.ValueTypeString:
		return "answers a text, where a number is needed"
	}
	return ""
}

// Range is a span of samples that a function looks back at.
type Range struct {
	// Function is the function's name, as "rate".
	Function string
	// Span is how far it looks back.
	Span time.Duration
	// Samples is how many samples it needs there to have a value: 0, 1 or 2.
	Samples int

	matrix   *parser.MatrixSelector
	selector *parser.VectorSelector
}

// Count returns the query for the most samples that one series has in n such ranges
// one after the other.
func (r Range) Count(n int) string {
	longer := *r.matrix
	longer.Range = time.Duration(n) * r.Span
	return "max(count_over_time(" + longer.String() + "))"
}

// OfJob reports whether the samples may be of a job, by the label "job" that the
// selector wants.
func (r Range) OfJob(job string) bool {
	for _, matcher := range r.selector.LabelMatchers {
		if matcher.Name == "job" && !matcher.Matches(job) {
			return false
		}
	}
	return true
}

// pairwise are the functions that compare samples of a range with one another.
var pairwise = map[string]bool{
	"delta": true, "deriv": true, "double_exponential_smoothing": true, "idelta": true, "increase": true, "irate": true, "predict_linear": true, "rate": true,
}

// Ranges returns the ranges of the query, without those of subqueries, which have
// their own steps.
func (q Query) Ranges() []Range {
	var ranges []Range
	parser.Inspect(q.expr, func(node parser.Node, _ []parser.Node) error {
		call, ok := node.(*parser.Call)
		if !ok {
			return nil
		}
		for _, argument := range call.Args {
			matrix, ok := bare(argument).(*parser.MatrixSelector)
			if !ok {
				continue
			}
			selector, ok := matrix.VectorSelector.(*parser.VectorSelector)
			if !ok || matrix.Range == 0 {
				continue
			}
			r := Range{Function: call.Func.Name, Span: matrix.Range, Samples: 1, matrix: matrix, selector: selector}
			switch {
			case pairwise[r.Function]:
				r.Samples = 2
			case r.Function == "absent_over_time":
				r.Samples = 0
			}
			ranges = append(ranges, r)
		}
		return nil
	})
	return ranges
}

// Latest reports whether the query looks at the newest sample of some series, and not at
// ranges alone.
func (q Query) Latest() bool {
	latest := false
	parser.Inspect(q.expr, func(node parser.Node, path []parser.Node) error {
		if _, ok := node.(*parser.VectorSelector); ok {
			ranged := false
			if len(path) > 0 {
				_, ranged = path[len(path)-1].(*parser.MatrixSelector)
			}
			latest = latest || !ranged
		}
		return nil
	})
	return latest
}

// bare returns an expression without parentheses and the like around it.
func bare(expr parser.Expr) parser.Expr {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
		case *parser.StepInvariantExpr:
			expr = e.Expr
		case *parser.UnaryExpr:
			expr = e.Expr
		default:
			return expr
		}
	}
}
