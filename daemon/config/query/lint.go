package query

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Findings describes the parts of the query that make it fail in ordinary operation, or return a
// value that does not follow the load. Each text contains a remedy.
func (q Query) Findings() (findings []string) {
	parser.Inspect(q.expr, func(node parser.Node, path []parser.Node) error {
		finding := ""
		switch e := node.(type) {
		case *parser.VectorSelector:
			finding = selectorFinding(e, path)
		case *parser.Call:
			finding = callFinding(e)
		case *parser.AggregateExpr:
			if e.Op == parser.QUANTILE {
				finding = quantileFinding("quantile", e.Param)
			}
		}
		if finding != "" && !slices.Contains(findings, finding) {
			findings = append(findings, finding)
		}
		return nil
	})
	if e, ok := bare(q.expr).(*parser.BinaryExpr); ok && e.ReturnBool {
		findings = append(findings, "a comparison with bool is 0 or 1 and does not follow the load: use the compared value, with the limit as the target")
	}
	return findings
}

// counterFunctions contains the functions that turn a counter into a value that can fall.
var counterFunctions = []string{"changes", "resets", "timestamp", "absent", "absent_over_time", "present_over_time", "count_over_time"}

func selectorFinding(selector *parser.VectorSelector, path []parser.Node) string {
	name := nameOf(selector)
	if selector.Timestamp != nil {
		return "a selector with a fixed time (@) never changes: remove @"
	}
	if !isCounter(name) {
		return ""
	}
	var below parser.Node = selector
	for _, node := range slices.Backward(path) {
		switch e := node.(type) {
		case *parser.Call:
			if pairwise[e.Func.Name] || slices.Contains(counterFunctions, e.Func.Name) {
				return ""
			}
		case *parser.AggregateExpr:
			if e.Op == parser.COUNT || e.Op == parser.GROUP || e.Op == parser.COUNT_VALUES {
				return ""
			}
		case *parser.BinaryExpr:
			if e.Op == parser.SUB || e.Op != parser.ADD && e.Op != parser.LOR && below == e.RHS && !isNumber(e.LHS) {
				return "" // a difference of counters can fall; a divisor, factor or condition is not the value
			}
		}
		below = node
	}
	return fmt.Sprintf("%s is a counter and never falls: use rate(%s[5m])", name, name)
}

func callFinding(call *parser.Call) string {
	function := call.Func.Name
	switch function {
	case "rate", "irate", "increase":
		switch e := bare(call.Args[0]).(type) {
		case *parser.SubqueryExpr:
			if aggregate, ok := core(e.Expr).(*parser.AggregateExpr); ok && aggregate.Op == parser.SUM {
				return fmt.Sprintf("%s of a sum shows a jump if one instance restarts: use the sum of %s(…[5m])", function, function)
			}
		case *parser.MatrixSelector:
			if selector, ok := e.VectorSelector.(*parser.VectorSelector); ok && isGauge(nameOf(selector)) {
				name := nameOf(selector)
				return fmt.Sprintf("%s of %s, which is a gauge and not a counter, is not its level: use %s or avg_over_time(%s[5m])", function, name, name, name)
			}
		}
	case "histogram_quantile":
		if len(call.Args) != 2 {
			return ""
		}
		if finding := quantileFinding(function, call.Args[0]); finding != "" {
			return finding
		}
		if isBuckets(call.Args[1]) && drops(call.Args[1], labels.BucketLabel) {
			return "histogram_quantile needs the label le, which the aggregation removes: add le to by (…)"
		}
	}
	return ""
}

func quantileFinding(function string, expr parser.Expr) string {
	if number, ok := bare(expr).(*parser.NumberLiteral); ok && (number.Val > 1 || number.Val < 0) {
		return fmt.Sprintf("%s(%v, …) is always infinite: use a number from 0 to 1, such as 0.95", function, number.Val)
	}
	return ""
}

// Gap returns the comparison or function that removes all series in ordinary operation, such as ">
// 0" for an empty queue. It is empty if there is no such part. It contains no label values, which
// can be secret.
func (q Query) Gap() string { return gap(q.expr) }

// mirrored maps a comparison operator to the operator that is equivalent after the operands are
// swapped.
var mirrored = map[parser.ItemType]parser.ItemType{parser.LSS: parser.GTR, parser.LTE: parser.GTE, parser.GTR: parser.LSS, parser.GTE: parser.LTE}

func gap(expr parser.Expr) string {
	switch e := bare(expr).(type) {
	case *parser.AggregateExpr:
		return gap(e.Expr)
	case *parser.SubqueryExpr:
		return gap(e.Expr)
	case *parser.Call:
		if strings.HasPrefix(e.Func.Name, "absent") {
			return e.Func.Name + "(…)"
		}
		for _, argument := range e.Args {
			if part := gap(argument); part != "" {
				return part
			}
		}
	case *parser.BinaryExpr:
		vector, number, op := e.LHS, e.RHS, e.Op
		if isNumber(vector) {
			vector, number, op = number, vector, cmp.Or(mirrored[op], op)
		}
		left := gap(vector)
		switch {
		case e.Op == parser.LOR && gap(e.RHS) == "":
			return ""
		case left != "":
			return left
		case e.Op == parser.ADD || e.Op == parser.SUB:
			return gap(e.RHS)
		}
		limit, ok := bare(number).(*parser.NumberLiteral)
		if !ok || e.ReturnBool || ofHealth(vector) {
			return ""
		}
		if op == parser.GTR && limit.Val >= 0 || (op == parser.GTE || op == parser.EQLC) && limit.Val > 0 || op == parser.NEQ && limit.Val == 0 {
			return fmt.Sprintf("%s %v", op, limit.Val)
		}
	}
	return ""
}

// Averages reports whether the value already belongs to one instance or request, so that it must
// not be divided by the number of instances: an average, a quantile, a quotient of sums, or the
// maximum of such values or of rates. The maximum of any other value is not included, because
// several exporters can return the same total.
func (q Query) Averages() bool {
	switch e := core(q.expr).(type) {
	case *parser.AggregateExpr:
		switch e.Op {
		case parser.AVG:
			return len(e.Grouping) == 0 || !ofBacklog(e.Expr)
		case parser.QUANTILE:
			return true
		case parser.MAX, parser.MIN:
			call, ok := core(e.Expr).(*parser.Call)
			return (isShare(e.Expr) || ok && pairwise[call.Func.Name]) && !ofBacklog(e.Expr)
		}
	case *parser.Call:
		return e.Func.Name == "histogram_quantile" || e.Func.Name == "histogram_avg"
	case *parser.BinaryExpr:
		if e.Op != parser.DIV {
			return false
		}
		divisor := core(e.RHS)
		if call, ok := divisor.(*parser.Call); ok && call.Func.Name == "scalar" {
			divisor = core(call.Args[0])
		}
		aggregate, ok := divisor.(*parser.AggregateExpr)
		return ok && (aggregate.Op == parser.SUM || aggregate.Op == parser.COUNT)
	}
	return false
}

// Latency reports whether the query is a quantile of request durations in seconds.
func (q Query) Latency() bool {
	call, ok := bare(q.expr).(*parser.Call)
	if !ok || call.Func.Name != "histogram_quantile" {
		return false
	}
	return everySelector(call, func(name string) bool {
		words := wordsOf(name)
		return slices.Contains(words, "seconds") && containsAny(words, []string{"grpc", "http", "latency", "request", "requests", "response", "rpc"})
	})
}

// Drops reports whether no series of the result has the label.
func (q Query) Drops(label string) bool { return drops(q.expr, label) }

func drops(expr parser.Expr, label string) bool {
	switch e := bare(expr).(type) {
	case *parser.NumberLiteral:
		return true
	case *parser.SubqueryExpr:
		return drops(e.Expr, label)
	case *parser.AggregateExpr:
		return aggregationDrops(e, label)
	case *parser.BinaryExpr:
		return binaryDrops(e, label)
	case *parser.Call:
		switch name := e.Func.Name; {
		case name == "label_replace", name == "label_join":
			added, ok := e.Args[1].(*parser.StringLiteral)
			return ok && added.Val != label && drops(e.Args[0], label)
		case strings.HasPrefix(name, "absent"), name == "info":
			return false // these functions can add labels
		case name == "scalar", name == "vector", len(e.Args) == 0:
			return true
		}
		for _, argument := range e.Args {
			if kind := argument.Type(); kind == parser.ValueTypeVector || kind == parser.ValueTypeMatrix {
				return drops(argument, label)
			}
		}
	}
	return false
}

func aggregationDrops(e *parser.AggregateExpr, label string) bool {
	named := slices.Contains(e.Grouping, label)
	switch e.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return drops(e.Expr, label)
	case parser.COUNT_VALUES:
		return false
	}
	return named == e.Without || drops(e.Expr, label)
}

func binaryDrops(e *parser.BinaryExpr, label string) bool {
	left, right := drops(e.LHS, label), drops(e.RHS, label)
	matching := e.VectorMatching
	switch {
	case matching == nil || e.Op == parser.LOR: // a number and a vector, or the series of both sides
		return left && right
	case e.Op == parser.LAND || e.Op == parser.LUNLESS:
		return left
	case slices.Contains(matching.Include, label):
		return false
	case matching.Card == parser.CardOneToMany:
		return right
	case matching.Card == parser.CardManyToOne:
		return left
	}
	return left || slices.Contains(matching.MatchingLabels, label) != matching.On
}

// core returns an expression without the outer parts that do not change whether it is a total, an
// average or a quantile: constants, roundings, limits, and a constant that replaces a missing
// result.
func core(expr parser.Expr) parser.Expr {
	for {
		expr = bare(expr)
		switch e := expr.(type) {
		case *parser.BinaryExpr:
			switch {
			case e.Op != parser.LOR && isNumber(e.LHS):
				expr = e.RHS
			case isNumber(e.RHS), e.Op == parser.LOR:
				expr = e.LHS
			default:
				return expr
			}
		case *parser.Call:
			if len(e.Args) == 0 || !slices.Contains([]string{"abs", "ceil", "clamp", "clamp_max", "clamp_min", "floor", "round", "sort", "sort_desc"}, e.Func.Name) {
				return expr
			}
			expr = e.Args[0]
		default:
			return expr
		}
	}
}

func nameOf(selector *parser.VectorSelector) string {
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == model.MetricNameLabel && matcher.Type == labels.MatchEqual {
			return matcher.Value
		}
	}
	return ""
}

// gaugeWords are the last words in the names of gauges. levelWords are words in the names of gauges
// that end with "_total".
var (
	gaugeWords = []string{"backlog", "depth", "lag", "length", "outstanding", "pending", "ratio", "ready", "unacked", "utilization", "waiting"}
	levelWords = append([]string{"active", "available", "capacity", "current", "free", "limit", "max", "memory", "open", "queue", "running", "size", "used"}, gaugeWords...)
)

// counterName matches the names of counters, and of the count and the sum of a histogram with a
// unit.
var counterName = regexp.MustCompile(`^[^:]*_(total|(bytes|milliseconds|seconds)_(count|sum))$`)

func isCounter(name string) bool {
	return strings.HasSuffix(name, "_bucket") || counterName.MatchString(name) && !containsAny(wordsOf(name), levelWords)
}

func isGauge(name string) bool {
	words := wordsOf(name)
	return len(words) > 1 && slices.Contains(gaugeWords, words[len(words)-1])
}

// everySelector reports whether a condition applies to the name of every selector, and there is a
// selector.
func everySelector(expr parser.Expr, condition func(name string) bool) bool {
	every, found := true, false
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			found, every = true, every && condition(nameOf(selector))
		}
		return nil
	})
	return every && found
}

func isBuckets(expr parser.Expr) bool {
	return everySelector(expr, func(name string) bool { return strings.HasSuffix(name, "_bucket") })
}

func ofBacklog(expr parser.Expr) bool {
	return everySelector(expr, func(name string) bool {
		words := wordsOf(name)
		return containsAny(words, workWords) && !containsAny(words, shareWords)
	})
}

// ofHealth reports whether the series show health and not load, such as "up".
func ofHealth(expr parser.Expr) bool {
	return everySelector(expr, func(name string) bool {
		words := wordsOf(name)
		return len(words) > 0 && slices.Contains([]string{"up", "healthy", "info", "status", "enabled"}, words[len(words)-1])
	})
}
