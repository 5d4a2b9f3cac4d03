package query

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

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

// The words that identify a gauge together with others. A name that ends with a unit can be the name of
// a native histogram or of an old counter.
var (
	// countedWords are words in the names of counters and histograms.
	countedWords = []string{
		"acked", "allocated", "allocations", "bandwidth", "bucket", "copied", "count", "created", "delivered", "dequeued", "discarded", "dropped", "enqueued", "errors", "events",
		"failed", "failures", "finished", "processed", "published", "read", "reads", "received", "sent", "sum", "throughput", "timeouts", "total", "traffic", "transferred",
		"transmitted", "write", "writes", "written",
	}
	// queueWords are words that identify the length of a queue before one other word.
	queueWords = []string{"backlog", "depth", "lag", "occupancy", "utilisation", "utilization"}
	// heldWords are words in the names of gauges in bytes.
	heldWords = []string{
		"avail", "available", "free", "heap", "inuse", "limit", "mem", "memory", "resident", "rss", "usage", "used", "working",
	}
)

func isGauge(name string) bool {
	words := wordsOf(name)
	if len(words) < 2 || containsAny(words, countedWords) {
		return false
	}
	switch last := words[len(words)-1]; {
	case slices.Contains(gaugeWords, last), containsAny(words[len(words)-2:], queueWords):
		return true
	case last == "bytes":
		return containsAny(words, heldWords)
	case last == "percent" || last == "percentage" || last == "celsius" || last == "inflight" || last == "goroutines":
		return true
	case last == "flight" || last == "progress":
		return words[len(words)-2] == "in"
	case slices.Contains([]string{"avail", "available", "free", "inuse", "usage", "used"}, last):
		return containsAny(words, []string{"disk", "filesystem", "fs", "heap", "mem", "memory", "storage", "swap", "volume"})
	case last == "size" || last == "unacknowledged":
		return slices.Contains(words, "queue")
	}
	return name == "rabbitmq_queue_messages"
}

// rule contains the parts of the name of a recording rule, LEVEL:METRIC:OPERATIONS. Any other name is
// only a metric.
type rule struct{ level, metric, operations string }

// recordingRule returns the parts of a name. It reports whether the name has the form of a recording
// rule whose operations are known.
func recordingRule(name string) (rule, bool) {
	parts := strings.Split(name, ":")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return rule{metric: name}, false
	}
	r := rule{parts[0], parts[1], parts[2]}
	for _, each := range operationsOf(r.operations) {
		if !slices.Contains(operations, each.name) {
			return rule{metric: name}, false
		}
	}
	return r, true
}

// operations contains the known operations of recording rules.
var operations = []string{"avg", "count", "histogram", "increase", "irate", "mean", "p", "percentile", "quantile", "rate", "ratio", "sum"}

type operation struct {
	name string
	// windowed is set for an operation over a period, such as rate5m.
	windowed bool
}

var operationForm = regexp.MustCompile(`^[0-9]*([a-z]+?)([0-9]+[a-z]*)?$`)

func operationsOf(text string) (found []operation) {
	for _, word := range wordsOf(text) {
		if parts := operationForm.FindStringSubmatch(word); parts != nil {
			found = append(found, operation{parts[1], parts[2] != ""})
		} else {
			found = append(found, operation{name: word})
		}
	}
	return found
}

// instanceWords are words in the levels of recording rules with a value for each instance.
var instanceWords = []string{"addr", "address", "alloc", "container", "host", "instance", "machine", "node", "pod", "process", "replica", "server", "task", "vm", "worker"}

// recorded returns the meaning of a recording rule. m is the meaning of its metric.
func (m meaning) recorded(name string, r rule) meaning {
	averaged, meant, summed := false, false, false
	for _, each := range operationsOf(r.operations) {
		switch each.name {
		case "rate", "irate", "increase":
			m.changes, m.gauge = true, name
		case "avg", "mean":
			averaged, meant = averaged || !each.windowed, true
		case "sum", "count":
			summed = true
		case "histogram":
		default:
			averaged = true
		}
	}
	switch {
	case averaged || meant && m.changes:
		m.kind = average
	case meant: // the mean over a period
		if m.kind != share {
			m.kind = other
		}
	case m.kind == level && !containsAny(wordsOf(r.level), instanceWords) && (summed || m.changes):
		m.kind = total
	}
	if m.changes && m.unit == seconds && slices.Contains(m.words, "cpu") {
		m.unit = cores
	}
	return m
}

// workWords are words in the names of metrics that count waiting work.
var workWords = []string{
	"backlog", "depth", "enqueued", "items", "jobs", "lag", "length", "message", "messages", "outstanding", "pending", "queue", "queued", "queues",
	"tasks", "unacked", "waiting",
}

// shareWords are words in the names of metrics with a value per instance or item.
var shareWords = []string{
	"age", "average", "avg", "delay", "duration", "latency", "mean", "microseconds", "milliseconds", "ms", "nanoseconds", "p50", "p90", "p95", "p99",
	"per", "percent", "percentage", "quantile", "ratio", "second", "seconds", "time", "timestamp", "utilisation", "utilization", "wait",
}

// withoutStatistic returns the words of a name without the statistic at the end of a metric of CloudWatch.
func withoutStatistic(words []string) []string {
	if last := len(words) - 1; last > 0 && words[0] == "aws" && slices.Contains([]string{"average", "maximum", "minimum", "sum"}, words[last]) {
		return words[:last]
	}
	return words
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == ':' })
}

func containsAny(words, wanted []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(wanted, word) })
}
