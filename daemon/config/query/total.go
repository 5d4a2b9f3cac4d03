package query

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Total reports whether the query's value is surely a total of work, as the length
// of a queue or the requests per second of a service: what does not fall for each
// instance that is added. It errs on false: averages, quotients, times and whatever
// is not known are none.
func (q Query) Total() bool { return isTotal(q.expr) }

func isTotal(expr parser.Expr) bool {
	switch e := bare(expr).(type) {
	case *parser.AggregateExpr:
		switch e.Op {
		case parser.SUM, parser.COUNT:
			return !isShare(e.Expr)
		case parser.MAX, parser.MIN, parser.TOPK, parser.BOTTOMK:
			return isTotal(e.Expr)
		}
	case *parser.Call:
		if slices.Contains(keepers, e.Func.Name) && len(e.Args) > 0 {
			return isTotal(e.Args[0])
		}
	case *parser.BinaryExpr:
		return isTotalOfTwo(e)
	case *parser.SubqueryExpr:
		return isTotal(e.Expr)
	case *parser.MatrixSelector:
		return isTotal(e.VectorSelector)
	case *parser.VectorSelector:
		words := wordsOf(e.Name)
		return containsAny(words, workWords) && !containsAny(words, shareWords)
	}
	return false
}

// isTotalOfTwo reports whether an operation of two operands yields a total.
func isTotalOfTwo(e *parser.BinaryExpr) bool {
	left, right := isNumber(e.LHS), isNumber(e.RHS)
	switch {
	case e.ReturnBool:
		return false
	case e.Op.IsSetOperator():
		return isTotal(e.LHS)
	case e.Op.IsComparisonOperator():
		return isTotal(e.LHS) || left && isTotal(e.RHS)
	case e.Op == parser.ADD, e.Op == parser.SUB:
		if left && right {
			return false
		}
		return (left || isTotal(e.LHS)) && (right || isTotal(e.RHS))
	case e.Op == parser.MUL:
		return left && isTotal(e.RHS) || right && isTotal(e.LHS)
	case e.Op == parser.DIV:
		return right && isTotal(e.LHS)
	}
	return false
}

// isShare reports whether a value belongs to an instance or an item rather than to
// all of them, so that even a sum of it need not be a total.
func isShare(expr parser.Expr) bool {
	share := false
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch e := node.(type) {
		case *parser.AggregateExpr:
			share = share || e.Op == parser.AVG || e.Op == parser.QUANTILE
		case *parser.BinaryExpr:
			share = share || e.Op == parser.DIV && !isNumber(e.RHS)
		case *parser.Call:
			share = share || strings.HasPrefix(e.Func.Name, "histogram_") || e.Func.Name == "time" || e.Func.Name == "timestamp"
		case *parser.VectorSelector:
			share = share || e.Name == "" || containsAny(wordsOf(e.Name), shareWords)
		}
		return nil
	})
	return share
}

func isNumber(expr parser.Expr) bool {
	_, ok := bare(expr).(*parser.NumberLiteral)
	return ok
}

// keepers are the functions whose value is a total where that of their argument is.
var keepers = []string{
	"abs", "avg_over_time", "ceil", "clamp", "clamp_max", "clamp_min", "delta", "deriv", "double_exponential_smoothing", "floor", "idelta", "increase",
	"irate", "label_join", "label_replace", "last_over_time", "max_over_time", "min_over_time", "predict_linear", "rate", "round",
	"scalar", "sort", "sort_desc", "sum_over_time", "vector",
}

// workWords are in the names of what is counted while it waits to be done.
var workWords = []string{
	"backlog", "depth", "enqueued", "items", "jobs", "lag", "length", "message", "messages", "outstanding", "pending", "queue", "queued", "queues",
	"tasks", "unacked", "waiting",
}

// shareWords are in the names of what is measured for one instance or one item.
var shareWords = []string{
	"age", "average", "avg", "delay", "duration", "latency", "mean", "microseconds", "milliseconds", "ms", "nanoseconds", "p50", "p90", "p95", "p99",
	"per", "percent", "percentage", "quantile", "ratio", "second", "seconds", "time", "timestamp", "utilisation", "utilization", "wait",
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == ':' })
}

func containsAny(words, wanted []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(wanted, word) })
}
