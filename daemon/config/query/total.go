package query

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Total reports whether the query's value is a total of work, such as the length of a queue or the
// requests per second of a service: a sum or a count, or a series with the name of a backlog. A
// total does not fall when instances are added. Quotients, averages, times and other expressions
// are not totals.
func (q Query) Total() bool {
	switch e := bare(q.expr).(type) {
	case *parser.AggregateExpr:
		return (e.Op == parser.SUM || e.Op == parser.COUNT) && !isShare(e.Expr)
	case *parser.VectorSelector:
		words := wordsOf(e.Name)
		return containsAny(words, workWords) && !containsAny(words, shareWords)
	}
	return false
}

// isShare reports whether a value belongs to an instance or an item, so that even its sum need not
// be a total.
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

// workWords occur in the names of counts of waiting work.
var workWords = []string{
	"backlog", "depth", "enqueued", "items", "jobs", "lag", "length", "message", "messages", "outstanding", "pending", "queue", "queued", "queues",
	"tasks", "unacked", "waiting",
}

// shareWords occur in the names of values per instance or per item.
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
