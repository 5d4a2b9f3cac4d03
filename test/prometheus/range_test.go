package prometheus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/prometheus"
	"github.com/hpad/hpad/test/prometheus/promtest"
)

// TestRange checks that a range query of a real server returns at each instant what an instant query
// returns: also for gaps, stale samples, a max_age, scalars and functions that depend on the time.
func TestRange(t *testing.T) {
	server := promtest.Start(t, "")
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Minute)
	var text strings.Builder
	text.WriteString("# TYPE queue_length gauge\n")
	for queue := range 2 {
		for i := range 1200 { // 100 minutes, with a gap
			if i < 500 || i > 700 {
				fmt.Fprintf(&text, "queue_length{queue=\"%d\"} %d %d\n", queue, (i*7919+queue*31)%1000, begin.Add(time.Duration(i)*5*time.Second).Unix())
			}
		}
	}
	text.WriteString("# EOF\n")
	server.Load(text.String())
	config := &prometheus.Config{URL: server.URL}
	config.SetDefaults()
	source, err := prometheus.New("prom", config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	for _, query := range []sources.Query{
		{Text: "queue_length"},
		{Text: "sum(queue_length)"},
		{Text: "sum(queue_length)", MaxAge: 30 * time.Second},
		{Text: `rate(queue_length{queue="1"}[2m])`},
		{Text: "scalar(sum(queue_length)) * 2"},
		{Text: "topk(1, queue_length)"},
		{Text: "time()"},
		{Text: "absent(queue_length)"},
		{Text: `queue_length{queue="1"} > 500`},
		{Text: "avg_over_time(sum(queue_length)[5m:30s])"},
		{Text: "no_such_metric"},
	} {
		const instants = 1300 // more than one request
		const step = 5 * time.Second
		results := make([]map[string]float64, 0, instants)
		from := begin.Add(-2 * time.Minute)
		err := source.QueryRange(t.Context(), query, from, step, instants, func(_ time.Time, v *sources.Vector) {
			results = append(results, valuesOf(v))
		})
		if err != nil || len(results) != instants {
			t.Errorf("%s: %d instants, %v", query.Text, len(results), err)
			continue
		}
		for i := 0; i < instants; i += 13 {
			at := from.Add(time.Duration(i) * step)
			vector, err := source.Query(t.Context(), query, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(valuesOf(&vector), results[i], cmpopts.EquateNaNs()); diff != "" {
				t.Fatalf("%s at %v (-instant +range):\n%s", query.Text, at, diff)
			}
		}
	}
}

func valuesOf(v *sources.Vector) map[string]float64 {
	values := map[string]float64{}
	for _, series := range v.Series {
		values[series.Labels.String()] = series.Value
	}
	return values
}
