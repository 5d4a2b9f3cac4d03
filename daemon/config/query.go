package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/config/query"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
	"github.com/hpad/hpad/settings/quantity"
	"github.com/hpad/hpad/sources"
)

// assumedInterval is the scrape interval assumed for servers with an unknown interval. It is
// shorter than usual intervals, to avoid false warnings.
const assumedInterval = 5 * time.Second

// checkAge warns if max_age does not apply to the query.
func (t *table) checkAge(c *Config, path string, m metricTable) {
	if m.MaxAge == nil || m.selector(c) != nil {
		return
	}
	if q, err := query.Parse(m.Query); err == nil && !q.Latest() {
		t.warn(under(path, "max_age"), "has no effect on the query: all its samples are from ranges in square brackets, which limit their age")
	}
}

// checkQuery records an error if a metric's query cannot return one value per series. It warns
// about queries that are probably wrong.
func (t *table) checkQuery(c *Config, path string, m metricTable) {
	source, ok := c.Sources[m.Source]
	selector := m.selector(c)
	switch {
	case m.Query == "" && selector == nil:
		t.add(under(path, "query"), "", "is required with source")
		return
	case !ok:
		return // the error is already recorded
	case len(m.Query) > query.MaxLength:
		t.add(under(path, "query"), "", fmt.Sprintf("has %d bytes, and at most %d are possible: use a recording rule", len(m.Query), query.MaxLength))
		return
	case selector != nil:
		t.checkSelection(path, m, selector)
		return
	}
	evaluator, evaluated := source.Config.(sources.Evaluator)
	q, unfit := parseFor(m.Query, evaluated)
	switch {
	case unfit == "":
	case evaluated:
		t.addWritten(under(path, "query"), unfit)
		return
	default:
		t.warn(under(path, "query"), unfit+"; hpad sends it anyway, because some servers extend PromQL")
		return
	}
	for _, r := range q.Ranges() {
		if !evaluated {
			if least := least(r, assumedInterval); r.Span < least {
				t.warn(under(path, "query"), fmt.Sprintf("%s over %s requires %s in that period, and few servers scrape every %s; use at least %s, or better four times the server's scrape_interval",
					r.Function, settings.Span(r.Span), samples(r), settings.Span(assumedInterval), settings.Span(least)))
			}
			continue
		}
		interval := evaluator.ScrapeInterval(r.OfJob)
		if least := least(r, interval); r.Span < least {
			t.addWritten(under(path, "query"), fmt.Sprintf("%s over %s requires %s in that period, and source %q scrapes every %s: use at least %s, or better %s",
				r.Function, settings.Span(r.Span), samples(r), m.Source, settings.Span(interval), settings.Span(least), settings.Span(4*interval)))
			return
		}
	}
	t.lintQuery(path, m, q)
}

// selector returns the configuration of the metric's source if it selects values from a document, or
// nil.
func (m metricTable) selector(c *Config) sources.Selector {
	selector, _ := c.Sources[m.Source].Config.(sources.Selector)
	return selector
}

// checkSelection records an error if a query cannot select values from the source's document. It warns
// about a target that does not fit the selected value.
func (t *table) checkSelection(path string, m metricTable, selector sources.Selector) {
	key := under(path, "query")
	q, err := m.meaning(selector)
	if err != nil {
		t.addWritten(key, err.Error())
		return
	}
	if name := q.Counter(); name != "" {
		t.warn(key, name+" is a counter, which never falls, and this source computes no rate: use a source of kind \"prometheus\" or \"embedded\", or an endpoint that returns a rate")
		return
	}
	t.lintQuery(path, m, q)
}

// meaning parses the query of a metric, for warnings. If the source selects values from a document, it
// parses the selector of the query, or the metric's name if the query has no words.
func (m metricTable) meaning(selector sources.Selector) (query.Query, error) {
	if selector == nil {
		return query.ParseFlagged(m.Query)
	}
	text, err := selector.CheckQuery(m.Query)
	if err != nil {
		return query.Query{}, err
	}
	return query.ParseFlagged(cmp.Or(text, sources.SelectorOf(m.Name)))
}

// lintQuery warns about a query whose value the algorithm would misread.
func (t *table) lintQuery(path string, m metricTable, q query.Query) {
	at := under(path, "query")
	for _, finding := range q.Findings() {
		t.warn(at, finding)
	}
	if gap := q.Gap(); gap != "" && m.Empty != emptyZero {
		t.warn(at, fmt.Sprintf("%s removes all series in ordinary operation, and the target is then not scaled down, because a metric without series fails: remove it, or append \"or vector(0)\"", gap))
	}
	for _, label := range slices.Sorted(maps.Keys(m.Select)) {
		if query.HasVariable(m.Select[label]) {
			t.warn(under(path, "select"), fmt.Sprintf("the value of label %q contains a variable of a different tool and selects no series, because hpad does not expand variables: write its value", label))
		}
		if q.Drops(label) {
			t.warn(under(path, "select"), fmt.Sprintf("the query returns no label %q, so that no series is selected: add it to by (…)", label))
		}
	}
	if m.InstanceLabel != "" && q.Drops(m.InstanceLabel) {
		t.warn(under(path, "instance_label"), fmt.Sprintf("the query returns no label %q, so that no series belongs to an instance: add it to by (…)", m.InstanceLabel))
	}
	if m.is(policy.ExternalMetric) {
		q = q.Summed()
	}
	t.lintTarget(path, m, q, "query")
}

// lintTarget warns about a target that does not fit the value of a query or formula.
func (t *table) lintTarget(path string, m metricTable, q query.Query, what string) {
	key, amount := "value", m.Value
	if m.AverageValue != nil {
		key, amount = "average_value", m.AverageValue
	}
	t.lintLatency(under(path, key), q.Latency(), amount, what)
	if resource := q.Resource(); resource != "" && m.AverageValue != nil && !m.ofResource() {
		t.lintAmount(under(path, key), resource, amount)
	}
	if m.ofInstances() {
		return
	}
	switch target := m.targetType(); {
	case target == policy.AverageValueTarget && q.Averages():
		t.warn(under(path, "average_value"), "the "+what+" is already an average, quantile, maximum or quotient, and average_value divides it by the number of replicas again: use value, or a "+what+" for the total")
	case target == policy.ValueTarget && q.Total():
		t.warn(under(path, "value"), "the "+what+" is a total, which does not fall when instances are added: its ratio to value multiplies the count again in every evaluation; use average_value, the share that one instance can handle")
	case target == policy.ValueTarget && q.Difference():
		t.warn(under(path, "value"), "the "+what+" is a difference of two totals, and its ratio to value multiplies the count again in every evaluation: if it is a part of the load, use average_value, the share that one instance can handle; if it is the growth of a queue, use the length of the queue")
	}
}

// lintFormula warns about the target of a formula. The queries of its metrics are not judged alone.
func (t *table) lintFormula(c *Config, given scalingTable, spec policy.Spec) {
	queries := map[string]query.Query{}
	for i, m := range given.Metrics {
		if q, err := m.meaning(m.selector(c)); err == nil && m.is(policy.ExternalMetric) {
			queries[spec.Metrics[i].Name] = q.Summed()
		} else if err == nil && m.is(policy.ObjectMetric) {
			queries[spec.Metrics[i].Name] = q
		}
	}
	if q, ok := query.Combine(given.Combine, queries); ok {
		t.lintTarget("", metricTable{Value: given.Value, AverageValue: given.AverageValue}, q, "formula")
	}
}

// lintLatency warns about the target of a request latency that is probably written in a different
// unit. second is the value of the query for one second, or 0 if the query does not measure a latency.
// what is "query" or "formula".
func (t *table) lintLatency(key string, second float64, amount *quantity.OrNumber, what string) {
	if second == 0 || amount == nil {
		return
	}
	switch target := amount.Float() / second; {
	case second < 100 && target >= maxLatency:
		t.warn(key, fmt.Sprintf("the %s returns seconds, and no request should take %d s: write milliseconds as \"500m\" or 0.5", what, maxLatency))
	case second > 100 && target > 0 && target < minLatency:
		t.warn(key, "the "+what+" returns a smaller unit than seconds, and the target is less than 1 ms: write the target in the unit of the "+what)
	}
}

const (
	// maxLatency is the number of seconds from which the target of a request latency is suspicious.
	maxLatency = 50
	// minLatency is the number of seconds below which the target of a latency in a smaller unit is
	// suspicious.
	minLatency = 0.001
	// minTarget is the target, in milli-units, below which one milli-unit, the precision of the
	// algorithm, is more than the usual tolerance of 10 %.
	minTarget = 10
	// maxCores and minMemory are the limits for amounts of one instance, in milli-units.
	maxCores  = 100_000
	minMemory = 1_000_000 * 1000
)

// lintAmount warns about an amount of one metric or resource that is probably written in a different
// unit.
func (t *table) lintAmount(key, resource string, amount *quantity.OrNumber) {
	if amount == nil || amount.Milli() <= 0 {
		return
	}
	exact := amount.Amount(resource)
	switch milli := exact.Milli; {
	case resource == "cpu" && milli >= maxCores:
		t.warn(key, fmt.Sprintf("is %s cores: write thousandths of a core as \"%sm\"", quantity.FormatMilli(milli), quantity.FormatMilli(milli)))
	case resource == "memory" && milli < minMemory:
		t.warn(key, fmt.Sprintf("is %s bytes: use a unit, such as \"512Mi\"", quantity.FormatDecimal(milli)))
	case milli < minTarget:
		t.warn(key, fmt.Sprintf("is read as %s, which is too coarse because the algorithm computes in thousandths: multiply the query and the target by 1000", quantity.FormatDecimal(milli)))
	}
}

// parseFor parses a query that hpad evaluates itself if evaluated is true, and otherwise sends to a
// server. unfit is the reason why the query cannot return one value per series, or empty.
func parseFor(text string, evaluated bool) (q query.Query, unfit string) {
	parse := query.ParseFlagged
	if evaluated {
		parse = query.Parse
	}
	q, err := parse(text)
	if err != nil {
		unfit = "cannot be parsed: " + err.Error()
		if settings.Placeholder(text) != "" {
			unfit += "; it contains a variable of a different tool, which hpad does not expand: write its value"
		}
		return q, unfit
	}
	return q, q.Unfit()
}

// least returns the minimum length of a range that contains enough samples at a scrape interval.
func least(r query.Range, interval time.Duration) time.Duration {
	return time.Duration(r.Samples) * interval
}

func samples(r query.Range) string {
	if r.Samples == 1 {
		return "a sample"
	}
	return fmt.Sprintf("%d samples", r.Samples)
}
