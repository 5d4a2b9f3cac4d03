package embedded

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/hpad/hpad/sources"
	source "github.com/hpad/hpad/sources/embedded"
)

// query is one row of the table of queries.
type query struct {
	text string
	// ordered says that the order of the response is part of it.
	ordered bool
	// rounds says that version 2 reckons in another order, so that its response may
	// differ in the last digits.
	rounds bool
	// since3 says why a server of version 2 differs; empty when it
	// does not.
	since3 string
}

// queries is the table. Values are such that no order of adding them rounds.
var queries = []query{
	{text: `requests_total`},
	{text: `queue_depth{service="cart"}`},
	{text: `queue_depth{instance=~"a|b", service!="pay"}`},
	{text: `{__name__=~"queue_.*", instance!~"a"}`},
	{text: `rate(requests_total[1m])`},
	{text: `rate(requests_total[5m])`},
	{text: `increase(requests_total[5m])`},
	{text: `irate(requests_total[2m])`},
	{text: `delta(queue_depth[2m])`},
	{text: `idelta(queue_depth[2m])`},
	{text: `deriv(linear[3m])`},
	{text: `predict_linear(linear[3m], 600)`},
	{text: `resets(requests_total[10m])`},
	{text: `changes(queue_depth[5m])`},
	{text: `sum(queue_depth)`},
	{text: `sum by (service) (queue_depth)`},
	{text: `sum without (instance) (requests_total)`},
	{text: `sum by (service) (increase(requests_total[2m])) > bool 100`},
	{text: `avg by (service) (queue_depth)`, rounds: true},
	{text: `min by (instance) (queue_depth)`},
	{text: `max(queue_depth)`},
	{text: `count by (code) (requests_total)`},
	{text: `count_values("depth", queue_depth)`},
	{text: `group by (service) (queue_depth)`},
	{text: `quantile by (service) (0.5, queue_depth)`},
	{text: `topk(2, queue_depth)`, ordered: true},
	{text: `bottomk(3, queue_depth)`, ordered: true},
	{text: `topk by (service) (1, requests_total)`},
	{text: `sort(queue_depth)`, ordered: true},
	{text: `sort_desc(queue_depth)`, ordered: true},
	{text: `histogram_quantile(0.9, rate(latency_seconds_bucket[5m]))`},
	{text: `histogram_quantile(0.5, sum by (le) (increase(latency_seconds_bucket[5m])))`},
	{text: `histogram_quantile(1.5, latency_seconds_bucket)`},
	{text: `histogram_quantile(0.9, latency_seconds_count)`},
	{text: `rate(latency_seconds_sum[5m]) / rate(latency_seconds_count[5m])`},
	{text: `wait_seconds{quantile="0.99"}`},
	{text: `avg_over_time(queue_depth[3m])`, rounds: true},
	{text: `min_over_time(queue_depth[3m])`},
	{text: `max_over_time(queue_depth[3m])`},
	{text: `sum_over_time(queue_depth[3m])`},
	{text: `count_over_time(queue_depth[10m])`},
	{text: `last_over_time(back[10m])`},
	{text: `present_over_time(early[10m])`},
	{text: `quantile_over_time(0.5, queue_depth[3m])`},
	{text: `absent(queue_depth)`},
	{text: `absent(nothing{job="x", instance=~"y"})`},
	{text: `absent_over_time(early[1m])`},
	{text: `absent_over_time(queue_depth[1m])`},
	{text: `max_over_time(rate(requests_total[1m])[5m:30s])`},
	{text: `avg_over_time(sum(queue_depth)[4m:])`},
	{text: `sum_over_time((queue_depth > 10)[3m:15s])`},
	{text: `queue_depth offset 2m`},
	{text: `rate(requests_total[2m] offset 3m)`},
	{text: `queue_depth offset -1m`},
	{text: `queue_depth @ 1793534700`},
	{text: `rate(requests_total[2m] @ 1793534905)`},
	{text: `queue_depth @ end()`},
	{text: `label_replace(queue_depth, "short", "$1-x", "service", "(..).*")`},
	{text: `label_join(queue_depth, "both", "/", "service", "instance")`},
	{text: `queue_depth > 5`},
	{text: `queue_depth >= bool 5`},
	{text: `queue_depth == queue_depth`},
	{text: `queue_depth / on (service) group_left capacity`},
	{text: `queue_depth * on (service, instance) group_left (zone) instance_info`},
	{text: `sum by (zone) (queue_depth * on (service, instance) group_left (zone) instance_info)`},
	{text: `capacity - ignoring (instance) group_right sum by (service, instance) (queue_depth)`},
	{text: `queue_depth and on (service) capacity > 100`},
	{text: `early or back`},
	{text: `queue_depth unless on (instance) queue_depth{instance="a"}`},
	{text: `capacity ^ 2 % 7`},
	{text: `-queue_depth`},
	{text: `scalar(capacity{service="cart"})`},
	{text: `scalar(queue_depth)`},
	{text: `vector(1)`},
	{text: `1 + 2 * 3`},
	{text: `1 / 0`},
	{text: `time()`},
	{text: `timestamp(queue_depth)`},
	{text: `hour(vector(1793534400)) + day_of_week() + days_in_month()`},
	{text: `odd`},
	{text: `odd == odd`},
	{text: `sum(odd)`},
	{text: `max(odd{kind!="inf"})`},
	{text: `sum_over_time(odd{kind="mixed"}[1m])`},
	{text: `max_over_time(odd{kind="mixed"}[2m])`},
	{text: `early`},
	{text: `back`},
	{text: `once`},
	{text: `count_over_time(once[10m])`},
	{text: `stddev(queue_depth)`},
	{text: `stddev_over_time(queue_depth[3m])`},
	{text: `stdvar by (service) (queue_depth)`},
	{text: `abs(queue_depth)`},
	{text: `clamp(queue_depth, 0, 10)`},
	{text: `clamp_max(queue_depth, 3)`},
	{text: `round(queue_depth, 2)`},
	{text: `ceil(queue_depth) - floor(queue_depth)`},
	{text: `sgn(queue_depth)`},
	{text: `sqrt(capacity) + ln(capacity) + exp(vector(1))`},
	{text: `nothing`},
	{text: `sum(nothing)`},
	{text: `count(nothing) or vector(0)`},
	// Both refuse these.
	{text: `queue_depth / capacity * on (zone) instance_info`},
	{text: `sum(`},
	{text: `rate(queue_depth)`},
	{text: `unknown_function(queue_depth)`},
	{text: `queue_depth[5m]`},
	{text: `mad_over_time(queue_depth[5m])`},
	{text: `label_replace(queue_depth, "service", "x", "instance", ".*")`},
	{text: `double_exponential_smoothing(queue_depth[5m], 0.5, 0.5)`},
	// Version 2 differs.
	{text: `holt_winters(queue_depth[5m], 0.5, 0.5)`, since3: "renamed to double_exponential_smoothing, which is experimental"},
	{text: `capacity atan2 64`, since3: "2.42 leaves the metric's name in the answer"},
}

// The instants of every query. At the first ones no sample has
// exactly an age that a query names.
var (
	betweenSamples = []time.Time{time.Unix(1793534707, 0), time.Unix(1793534987, 500e6), time.Unix(1793535060, 1e6)}
	onSamples      = []time.Time{time.Unix(1793534704, 0), time.Unix(1793535004, 0)}
)

func TestSameAnswersAsItsOwnVersion(t *testing.T) {
	samples := recorded(t)
	server := startServer(t, built(t), noScrape)
	server.load(t, samples)
	exact := slices.Clone(queries)
	for i := range exact {
		exact[i].rounds = false
	}
	compare(t, server, embedded(t, samples), exact, slices.Concat(betweenSamples, onSamples))
}

// TestSameAnswersAsVersion2 leaves out the instants at which a sample is as old
// as a range is long: up to version 2 such a sample belongs to the range.
func TestSameAnswersAsVersion2(t *testing.T) {
	samples := recorded(t)
	server := startServer(t, packaged(t), noScrape)
	server.load(t, samples)
	same := slices.DeleteFunc(slices.Clone(queries), func(q query) bool { return q.since3 != "" })
	compare(t, server, embedded(t, samples), same, betweenSamples)
}

// embedded returns a source over the samples.
func embedded(t *testing.T, samples []sample) *source.Source {
	t.Helper()
	dir := t.TempDir()
	fill(t, dir, samples)
	cfg := &source.Config{}
	cfg.SetDefaults()
	return startSource(t, cfg, dir)
}

func startSource(t *testing.T, cfg *source.Config, dir string) *source.Source {
	t.Helper()
	s, err := source.New("local", cfg, source.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill writes the samples as a source would have left them behind.
func fill(t *testing.T, dir string, samples []sample) {
	t.Helper()
	db, err := tsdb.Open(dir, nil, nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	app := db.AppenderV2(t.Context())
	for _, s := range samples {
		if _, err := app.Append(0, s.series, 0, s.at, s.value, nil, nil, storage.AOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, server *server, s *source.Source, table []query, instants []time.Time) {
	answered := 0
	for _, q := range table {
		t.Run(q.text, func(t *testing.T) {
			for _, at := range instants {
				want, wantErr := server.query(t.Context(), q.text, at)
				got, gotErr := s.Query(t.Context(), sources.Query{Text: q.text}, at)
				if (wantErr == nil) != (gotErr == nil) {
					t.Fatalf("at %d: server: %v, source: %v, want both or neither", at.UnixMilli(), wantErr, gotErr)
				}
				answered += len(got.Series)
				if got, want := lines(got, q), lines(want, q); !slices.Equal(got, want) {
					t.Errorf("at %d: source answers\n%s\nserver answers\n%s", at.UnixMilli(), strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
	if answered < 4*len(table) {
		t.Errorf("all queries together yield %d series, want more than a few: is the server empty?", answered)
	}
}

// lines returns every series of a vector with the exact bits of its value, or
// with its first digits where the query rounds.
func lines(vector sources.Vector, q query) []string {
	var list []string
	for _, series := range vector.Series {
		var text strings.Builder
		text.WriteString(series.Labels.String() + " ")
		text.WriteString(number(series.Value, q.rounds))
		fmt.Fprintf(&text, " at %d", series.At.UnixMilli())
		list = append(list, text.String())
	}
	if !q.ordered {
		slices.Sort(list)
	}
	return list
}

func number(v float64, rounds bool) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case rounds:
		return fmt.Sprintf("%.12g", v)
	default:
		return fmt.Sprintf("%v (%x)", v, math.Float64bits(v))
	}
}
