// Package query checks PromQL queries before they are sent. It detects ranges that are too short,
// results that are not single values, and totals, and it diagnoses missing results.
package query

import (
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// Query is a parsed query.
type Query struct {
	expr     parser.Expr
	meaning  meaning
	findings []string
}

// Parse parses a query as a Prometheus server without feature flags does.
func Parse(text string) (Query, error) {
	return parse(text, parser.Options{})
}

// ParseFlagged parses a query as a Prometheus server with all feature flags for PromQL does.
func ParseFlagged(text string) (Query, error) {
	return parse(text, parser.Options{
		EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true,
	})
}

// MaxLength is the maximum length of a query in bytes. The time to parse a query can be quadratic in
// its length.
const MaxLength = 16 << 10

func parse(text string, options parser.Options) (Query, error) {
	if len(text) > MaxLength {
		return Query{}, fmt.Errorf("has %d bytes, and at most %d are possible", len(text), MaxLength)
	}
	expr, err := parser.NewParser(options).ParseExpr(text)
	if err != nil {
		return Query{}, err
	}
	q := Query{expr: expr}
	q.meaning, q.findings = analyze(expr)
	return q, nil
}

// Unfit returns the reason why the query cannot return one value per series, or "" if it can.
func (q Query) Unfit() string {
	switch q.expr.Type() {
	case parser.ValueTypeMatrix:
		return "returns a range of samples for each series instead of one value: use a function such as avg_over_time(…) or rate(…)"
	case parser.ValueTypeString:
		return "returns a string instead of a number"
	}
	return ""
}

// Range describes a function that reads samples over a period.
type Range struct {
	// Function is, for example, "rate".
	Function string
	// Span is the length of the range.
	Span time.Duration
	// Samples is the number of samples that the function requires: 0, 1 or 2.
	Samples int

	selector *parser.VectorSelector
}

// OfJob reports whether the selector can match series with the given job label.
func (r Range) OfJob(job string) bool {
	for _, matcher := range r.selector.LabelMatchers {
		if matcher.Name == "job" && !matcher.Matches(job) {
			return false
		}
	}
	return true
}

// pairwise contains the functions that compare samples with each other.
var pairwise = map[string]bool{
	"delta": true, "deriv": true, "double_exponential_smoothing": true, "idelta": true, "increase": true, "irate": true, "predict_linear": true, "rate": true,
}

// Ranges returns the ranges of the query, except for subqueries, which have their own steps.
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
			r := Range{Function: call.Func.Name, Span: matrix.Range, Samples: 1, selector: selector}
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

// Latest reports whether the query reads the newest sample of any series directly, not only ranges.
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

// bare returns an expression without parentheses and unary operators.
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
