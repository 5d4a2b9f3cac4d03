package query

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/hpad/hpad/settings"
)

// analysis collects the findings of a query while its meaning is derived.
type analysis struct {
	findings []string
	// inputs contains the meanings of the metrics of a formula. It is nil for a query.
	inputs map[string]meaning
}

// Combine returns a query that computes a formula over queries. It returns false if the
// formula has parts that PromQL does not have.
func Combine(formula string, queries map[string]Query) (Query, bool) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(formula)
	if err != nil {
		return Query{}, false
	}
	a := analysis{inputs: make(map[string]meaning, len(queries))}
	for name, q := range queries {
		a.inputs[name] = q.meaning
	}
	return Query{expr: expr, meaning: a.of(expr)}, true
}

// input returns the meaning of a metric in a formula.
func (a *analysis) input(selector *parser.VectorSelector) meaning {
	m, known := a.inputs[nameOf(selector)]
	if !known {
		return meaning{scale: 1, size: 1}
	}
	m.labels = labelSet{} // a metric has one value
	return m
}

func (a *analysis) add(format string, values ...any) {
	if finding := fmt.Sprintf(format, values...); !slices.Contains(a.findings, finding) {
		a.findings = append(a.findings, finding)
	}
}

// analyze returns the meaning of a query, and the parts of the query that make it fail in ordinary
// operation, or return a value that does not follow the load.
func analyze(expr parser.Expr) (meaning, []string) {
	var a analysis
	m := a.of(expr)
	for _, name := range m.counters {
		a.add("%s is a counter and never falls: use rate(%s[5m])", name, name)
	}
	if m.kind == truth {
		a.add("a comparison with bool is 0 or 1 and does not follow the load: use the compared value, with the limit as the target")
	}
	return m, a.findings
}

func (a *analysis) checkTime(fixed *int64) {
	if fixed != nil {
		a.add("a selector with a fixed time (@) never changes: remove @")
	}
}

func (a *analysis) checkSelector(selector *parser.VectorSelector) {
	a.checkTime(selector.Timestamp)
	for _, matcher := range selector.LabelMatchers {
		if !HasVariable(matcher.Value) {
			continue
		}
		effect := "matches no series"
		if matcher.Type == labels.MatchNotEqual || matcher.Type == labels.MatchNotRegexp {
			effect = "excludes no series"
		}
		a.add("the matcher of label %q contains a variable of a different tool and %s, because hpad does not expand variables: write its value", matcher.Name, effect)
	}
}

// literal matches parts of label values that have the form of a variable, but occur in real label
// values: names of classes and of special functions, routes, OData resources, and groups of regular
// expressions.
var literal = regexp.MustCompile(`[A-Za-z0-9]\$[A-Z0-9]\w*|\\\$\w*|\?P?<\w+>|/\$(?:batch|count|links|metadata|ref|value)\b|/<[^<>/]*>|` +
	`__(?:ALL|ANY|DEFAULT|EMPTY|HIVE_DEFAULT_PARTITION|INVALID|MISSING|NA|NONE|NULL|OTHER|ROOT|UNKNOWN|UNSET)__|` +
	`<(?:anonymous|clinit|default|dictcomp|empty|genexpr|init|invalid|lambda|listcomp|module|nil|none|null|root|setcomp|stdin|string|unknown|unset)>`)

// HasVariable reports whether a label value contains a variable that a different tool expands, such
// as "$pod" or "{{ .Values.pod }}".
func HasVariable(value string) bool {
	return settings.Placeholder(literal.ReplaceAllString(value, "")) != ""
}

// checkCall checks a function with a first vector of the meaning m.
func (a *analysis) checkCall(function string, m meaning, parameters []meaning) {
	switch function {
	case "rate", "irate", "increase":
		switch {
		case m.gauge != "":
			a.add("%s of %s, which is a gauge and not a counter, is not its level: use %s or avg_over_time(%s[5m])", function, m.gauge, m.gauge, m.gauge)
		case m.summed:
			a.add("%s of a sum shows a jump if one instance restarts: use the sum of %s(…[5m])", function, function)
		}
	case "quantile_over_time":
		a.checkQuantile(function, parameters[0])
	case "histogram_quantile":
		if a.checkQuantile(function, parameters[0]); m.buckets && !m.labels.has(labels.BucketLabel) {
			a.add("histogram_quantile needs the label le, which the aggregation removes: add le to by (…)")
		}
	}
}

func (a *analysis) checkQuantile(function string, m meaning) {
	if m.kind == constant && (m.offset > 1 || m.offset < 0) {
		a.add("%s(%v, …) is always infinite: use a number from 0 to 1, such as 0.95", function, m.offset)
	}
}

// Findings describes the parts of the query that make it fail in ordinary operation, or return a
// value that does not follow the load. Each text contains a remedy.
func (q Query) Findings() []string { return q.findings }

// Counter returns the name of a counter from which the value is read without a rate, or "".
func (q Query) Counter() string {
	if len(q.meaning.counters) == 0 {
		return ""
	}
	return q.meaning.counters[0]
}

// Gap returns the comparison or function that removes all series in ordinary operation, such as ">
// 0" for an empty queue. It is empty if there is no such part. It contains no label values, which
// can be secret.
func (q Query) Gap() string { return q.meaning.gap }

// Drops reports whether no series of the result has the label.
func (q Query) Drops(label string) bool { return !q.meaning.labels.has(label) }

// Averages reports whether the value already belongs to one instance or request, so that it must
// not be divided by the number of instances: an average, a quantile, a quotient of sums, or the
// maximum of such values or of rates. The maximum of any other value is not included, because
// several exporters can return the same total.
func (q Query) Averages() bool { return q.meaning.kind == average || q.meaning.kind == peak }

// Total reports whether the query's value is a total of work, such as the length of a queue or the
// requests per second of a service. These are sums, counts, and series whose name indicates a
// backlog. A total does not fall when instances are added. Quotients, averages, times and the
// remainder of a limit are not totals.
func (q Query) Total() bool {
	return q.meaning.grows() && (q.meaning.scale > 0 || q.meaning.offset <= 0)
}

// Difference reports whether the query's value is the difference of two totals of work per second that
// can be a total: the names do not show that it is the growth of a backlog.
func (q Query) Difference() bool { return q.meaning.kind == difference && q.meaning.labels.none() }

// Summed returns the query for the sum of all series of a query. The sum of the rates of instances is a
// total.
func (q Query) Summed() Query {
	ofInstance := func(matcher *labels.Matcher) bool {
		return matcher.Type == labels.MatchEqual && slices.Contains(instanceWords, matcher.Name)
	}
	switch {
	case slices.ContainsFunc(q.meaning.matchers, ofInstance):
	case q.meaning.kind == level && q.meaning.changes:
		q.meaning.kind = total
	case q.meaning.kind == difference:
		q.meaning.labels = labelSet{}
	}
	return q
}

// Latency returns the value that the query has for a request duration of one second, such as 1000
// for milliseconds. It is 0 if the query does not measure request durations.
func (q Query) Latency() float64 {
	m := q.meaning
	if m.unit != seconds || m.kind != average && m.kind != share {
		return 0
	}
	if containsAny(m.words, requestWords) && !containsAny(m.words, jobWords) || m.observed && slices.Contains(m.words, "duration") && !containsAny(m.words, longWords) {
		return m.size
	}
	return 0
}

// The words in the names of durations. jobWords are words of waiting work, which can wait for minutes.
// longWords are words of operations that can take minutes.
var (
	requestWords = []string{"grpc", "http", "latency", "request", "requests", "response", "rpc"}
	jobWords     = []string{"job", "jobs", "queue", "task", "tasks"}
	longWords    = []string{
		"archive", "backup", "batch", "build", "builds", "call", "calls", "compaction", "completion", "connection", "connections", "conversion", "crawl", "cron",
		"cycle", "deploy", "deployment", "download", "downtime", "drain", "encode", "encoding", "etl", "execution", "export", "generation", "import", "index",
		"indexing", "inference", "ingest", "ingestion", "job", "jobs", "lease", "lifetime", "llm", "maintenance", "meeting", "migration", "outage", "pipeline",
		"playback", "process", "processing", "queue", "reconcile", "render", "rendering", "replication", "report", "restore", "ride", "run", "runs", "scan",
		"script", "session", "sessions", "simulation", "sleep", "snapshot", "step", "stream", "sync", "task", "tasks", "test", "tests", "training", "transcode",
		"transcoding", "trip", "upload", "uptime", "video", "visit", "wait", "waiting", "worker", "workflow",
	}
)

// Resource returns the resource that the query measures in cores or bytes: "cpu", "memory" or
// "".
func (q Query) Resource() string {
	m := q.meaning
	switch {
	case m.size != 1:
	case m.unit == cores && m.changes:
		return "cpu"
	case m.unit == bytes && !m.changes && containsAny(m.words, []string{"memory", "heap", "resident"}):
		return "memory"
	}
	return ""
}
