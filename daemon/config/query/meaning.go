package query

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/settings"
)

// kind classifies a value by its relation to the instances.
type kind int

const (
	// other is a value about which nothing is certain.
	other kind = iota
	constant
	// truth has two values, such as the result of a comparison with bool.
	truth
	// level is a value of one instance or server. The sum of such values is a total.
	level
	// peak is the maximum of the rates of several instances. The sum of such values is a total.
	peak
	// share is a value per item or per instance, such as a duration. Its sum has no meaning.
	share
	// average stands for a mean, a quantile, or a quotient of totals.
	average
	// backlog is a count of waiting work, according to its name.
	backlog
	// total is a sum or a count. It does not fall when instances are added.
	total
	// difference is a total without a part, or the growth of a backlog. The names do not reveal which.
	difference
)

// meaning describes the value of an expression, independent of its spelling.
type meaning struct {
	kind kind
	// scale and offset relate the value to a series: value = scale × series + offset. The offset is
	// the value of a constant.
	scale, offset float64
	// unit applies to the series: seconds, bytes, cores, or "" if it is unknown. The value contains
	// scale / size of them.
	unit unit
	// size is the value of one unit.
	size float64
	// words are the parts of the measured series' name, and matchers selects it. past is its offset.
	words    []string
	matchers []*labels.Matcher
	past     time.Duration
	labels   labelSet
	// counters contains the names of counters from which the value is read without a rate.
	counters []string
	// gauge is the name of the gauge that the value is read from, or "".
	gauge string
	// gap is the comparison or function that removes all series in ordinary operation, or "".
	gap string
	// changes is true for a rate or an increase. summed is true for a sum or an average that is not
	// a rate. buckets is true for the buckets of a histogram, and observed for a mean or a quantile of
	// its observations. health is true for series such as up.
	changes, summed, buckets, observed, health bool
}

type unit string

const (
	seconds unit = "seconds"
	bytes   unit = "bytes"
	cores   unit = "cores"
)

func number(value float64) meaning { return meaning{kind: constant, offset: value, size: 1} }

// linear returns the meaning of factor × value + summand.
func (m meaning) linear(factor, summand float64) meaning {
	m.scale, m.size, m.offset = m.scale*factor, m.size*math.Abs(factor), m.offset*factor+summand
	if m.kind != constant && m.scale == 0 {
		m.kind = constant
	}
	return m
}

// of returns the meaning of an expression, and records the findings of its parts. It visits each
// part once.
func (a *analysis) of(expr parser.Expr) meaning {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return a.of(e.Expr)
	case *parser.StepInvariantExpr:
		return a.of(e.Expr)
	case *parser.UnaryExpr:
		m := a.of(e.Expr)
		if e.Op == parser.SUB {
			m = m.linear(-1, 0)
		}
		return m
	case *parser.NumberLiteral:
		return number(e.Val)
	case *parser.MatrixSelector:
		return a.of(e.VectorSelector)
	case *parser.SubqueryExpr:
		a.checkTime(e.Timestamp)
		return a.of(e.Expr)
	case *parser.VectorSelector:
		if a.inputs != nil {
			return a.input(e)
		}
		a.checkSelector(e)
		return selected(e)
	case *parser.AggregateExpr:
		return a.aggregate(e)
	case *parser.Call:
		return a.call(e)
	case *parser.BinaryExpr:
		return a.binary(e)
	}
	return meaning{scale: 1, size: 1}
}

// selected returns the meaning of a selector, which follows from the name of its metric.
func selected(selector *parser.VectorSelector) meaning {
	name := nameOf(selector)
	rule, recorded := recordingRule(name)
	m := meaning{scale: 1, size: 1, words: wordsOf(rule.metric), matchers: selector.LabelMatchers, past: selector.OriginalOffset, labels: labelSet{except: true}}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Type == labels.MatchEqual && matcher.Value == "" {
			m.labels = m.labels.without(matcher.Name)
		}
	}
	events := len(m.words) > 0 && slices.Contains([]string{"total", "count", "sum", "bucket"}, m.words[len(m.words)-1])
	switch {
	case name == "":
	case containsAny(m.words, workWords) && !containsAny(withoutStatistic(m.words), shareWords):
		m.kind = backlog
	case containsAny(m.words, shareWords) && !events:
		m.kind = share
	default:
		m.kind = level
	}
	m.unit, m.size = unitOf(m.words)
	if isCounter(name) {
		m.counters = []string{name}
	}
	if isGauge(rule.metric) {
		m.gauge = name
	}
	if recorded {
		m = m.recorded(name, rule)
	}
	m.buckets = strings.HasSuffix(name, "_bucket")
	m.health = len(m.words) > 0 && slices.Contains([]string{"up", "healthy", "info", "status", "enabled"}, m.words[len(m.words)-1])
	return m
}

// unitOf returns the unit in the name of a metric, and the value of one unit.
func unitOf(words []string) (unit, float64) {
	if len(words) > 0 && words[len(words)-1] == "count" {
		return "", 1
	}
	for _, word := range words {
		if known, ok := units[word]; ok {
			return known.unit, known.size
		}
	}
	return "", 1
}

var units = map[string]struct {
	unit unit
	size float64
}{
	"seconds": {seconds, 1}, "milliseconds": {seconds, 1e3}, "ms": {seconds, 1e3}, "microseconds": {seconds, 1e6}, "nanoseconds": {seconds, 1e9},
	"bytes": {bytes, 1}, "cores": {cores, 1}, "millicores": {cores, 1e3},
}

// aggregate returns the meaning of an aggregation. The aggregation of a single series is the series.
func (a *analysis) aggregate(e *parser.AggregateExpr) meaning {
	m := a.of(e.Expr)
	if e.Param != nil {
		if parameter := a.of(e.Param); e.Op == parser.QUANTILE {
			a.checkQuantile("quantile", parameter)
		}
	}
	switch e.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		if m.kind == level && m.changes {
			m.kind = other // some of the instances
		}
		return m
	}
	single, inner := m.labels.none(), m.kind
	m.labels = aggregated(e, m.labels)
	switch e.Op {
	case parser.SUM, parser.AVG:
		m.summed = true
	case parser.MAX, parser.MIN, parser.QUANTILE:
	case parser.COUNT, parser.COUNT_VALUES:
		m = meaning{kind: total, scale: 1, size: 1, labels: m.labels, gap: m.gap, health: m.health}
		if inner == share || inner == average || inner == other {
			m.kind = other
		}
		return m
	default: // a deviation, or a constant
		return meaning{scale: 1, size: 1, labels: m.labels, gap: m.gap, health: m.health}
	}
	if !single && inner != constant {
		m.kind = aggregatedKind(e, m)
	}
	return m
}

// aggregatedKind returns the kind of an aggregation over several series with the meaning m.
func aggregatedKind(e *parser.AggregateExpr, m meaning) kind {
	switch e.Op {
	case parser.SUM:
		switch m.kind {
		case level, peak, truth, total:
			return total
		case backlog, difference:
			return m.kind
		}
		return other
	case parser.AVG:
		if m.kind == backlog && len(e.Grouping) > 0 {
			return other // the mean of the values that several exporters report for one queue
		}
		return average
	case parser.MAX, parser.MIN:
		switch {
		case m.kind == level && m.changes:
			return peak
		case m.kind == share:
			return average
		case m.kind == difference:
			return other // of one instance
		}
		return m.kind
	}
	return average // a quantile
}

// effect classifies changes that functions make to the meaning of their first vector.
type effect int

const (
	// same keeps the meaning: sorting, rounding, limits, other labels, and a value over time.
	same effect = iota + 1
	// curve is a function without a unit that grows with its argument.
	curve
	// change is a difference between samples, per second or not.
	change
)

// effects lists the functions with a known effect, in addition to those that call evaluates itself.
var effects = map[string]effect{
	"abs": same, "ceil": same, "clamp": same, "clamp_max": same, "clamp_min": same, "floor": same, "round": same, "sort": same, "sort_by_label": same,
	"sort_by_label_desc": same, "sort_desc": same, "info": same, "scalar": same, "vector": same, "label_join": same, "label_replace": same,
	"avg_over_time": same, "first_over_time": same, "last_over_time": same, "max_over_time": same, "min_over_time": same, "quantile_over_time": same,
	"sum_over_time": same, "predict_linear": same, "double_exponential_smoothing": same,
	"exp": curve, "ln": curve, "log10": curve, "log2": curve, "sgn": curve, "sqrt": curve,
	"delta": change, "deriv": change, "idelta": change, "increase": change, "irate": change, "rate": change,
}

func (a *analysis) call(e *parser.Call) meaning {
	m, name := meaning{scale: 1, size: 1}, e.Func.Name
	var parameters []meaning
	found := false
	for _, argument := range e.Args {
		parameter := a.of(argument)
		kind := argument.Type()
		if !found && (kind == parser.ValueTypeVector || kind == parser.ValueTypeMatrix || name == "vector") {
			m, found = parameter, true
		}
		parameters = append(parameters, parameter)
		if subquery, ok := bare(argument).(*parser.SubqueryExpr); ok && pairwise[name] && subquery.Range < 2*subquery.Step {
			a.add("%s over %s requires 2 samples in that period, and the subquery has a step of %s: use at least %s", name,
				settings.Span(subquery.Range), settings.Span(subquery.Step), settings.Span(2*subquery.Step))
		}
	}
	a.checkCall(name, m, parameters)
	switch name {
	case "scalar", "vector":
		m.labels = labelSet{}
	case "info":
		m.labels = labelSet{except: true}
	case "label_replace", "label_join":
		if added, ok := e.Args[1].(*parser.StringLiteral); ok {
			m.labels = m.labels.with(added.Val)
		}
	case "absent", "absent_over_time":
		return meaning{scale: 1, size: 1, labels: labelSet{except: true}, gap: name + "(…)"}
	}
	switch {
	case name == "pi":
		return number(math.Pi)
	case m.kind == truth && (name == "avg_over_time" || name == "sum_over_time"):
		m.kind = other
		return m
	case !found, effects[name] == same:
		return m
	case effects[name] == curve:
		return m.curve()
	case effects[name] == change:
		return m.rate(name)
	case strings.HasPrefix(name, "histogram_"):
		return m.histogram(name)
	}
	return meaning{scale: 1, size: 1, labels: m.labels, gap: m.gap, health: m.health}
}

// curve returns the meaning of a function without a unit that grows with its argument.
func (m meaning) curve() meaning {
	if m.kind == constant || m.scale <= 0 {
		return meaning{scale: 1, size: 1, labels: m.labels, gap: m.gap, health: m.health}
	}
	m.unit, m.size, m.scale, m.offset, m.buckets = "", 1, 1, 0, false
	return m
}

// rate returns the meaning of a function that compares samples, such as rate.
func (m meaning) rate(function string) meaning {
	ofGauge := len(m.counters) == 0 && !m.changes && function != "rate" && function != "irate" && function != "increase"
	m.changes, m.counters, m.gauge = true, nil, ""
	if ofGauge {
		m.kind = other // a change of a gauge can fall when instances are added
	}
	if m.unit == seconds && slices.Contains(m.words, "cpu") {
		if m.unit = cores; function != "rate" && function != "irate" && function != "deriv" {
			m.unit = ""
		}
	}
	return m
}

// histogram returns the meaning of a function of a histogram.
func (m meaning) histogram(function string) meaning {
	switch function {
	case "histogram_count", "histogram_sum":
		switch {
		case m.kind == average:
		case m.labels.none():
			m.kind = total
		default:
			m.kind = level
		}
		if function == "histogram_count" {
			m.unit, m.size = "", 1
		}
	case "histogram_fraction", "histogram_stdvar":
		m.kind, m.unit, m.size = average, "", 1
	default:
		m.kind, m.observed = average, true
	}
	m.labels = m.labels.without(labels.BucketLabel)
	return m
}
