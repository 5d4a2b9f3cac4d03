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

func isGauge(name string) bool {
	words := wordsOf(name)
	return len(words) > 1 && slices.Contains(gaugeWords, words[len(words)-1])
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

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == ':' })
}

func containsAny(words, wanted []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(wanted, word) })
}
