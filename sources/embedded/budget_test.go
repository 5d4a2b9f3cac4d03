package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// TestQueriesShareSamples checks that large queries wait for each other, and that small queries
// do not wait.
func TestQueriesShareSamples(t *testing.T) {
	samples := sources.NewBudget(400_000, "daemon.query_samples = 400000")
	cfg := config()
	cfg.MaxSamples = 150_000
	source := started(t, cfg, sources.Env{Samples: samples})
	large := func(i int) sources.Query {
		return sources.Query{Text: fmt.Sprintf("count_over_time(vector(%d)[60s:1ms])", i)}
	}
	results, stop, peak := make(chan error), make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			select {
			case <-stop:
				peak <- most
				return
			default:
				most = max(most, samples.Usage().Used)
			}
		}
	}()
	const queries = 8
	for i := range queries {
		go func() {
			vector, err := source.Query(t.Context(), large(i), time.Now())
			if err == nil && (len(vector.Series) != 1 || vector.Series[0].Value != 60_000) {
				err = fmt.Errorf("got %v, want 60000", vector)
			}
			results <- err
		}()
	}
	for range queries {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if most := <-peak; most > 150_000+queries*samples.Share() || samples.Usage().Used != 0 {
		t.Errorf("maximum samples in use = %d, current samples in use = %d, want no concurrent large queries", most, samples.Usage().Used)
	}

	claim, err := samples.Claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Release()
	if err := claim.Enlarge(t.Context(), 150_000); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Query(t.Context(), sources.Query{Text: "count_over_time(vector(1)[500ms:1ms])"}, time.Now()); err != nil {
		t.Errorf("small query failed during a large query: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = source.Query(ctx, large(0), time.Now())
	if !errors.Is(err, sources.ErrBudget) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "daemon.query_samples = 400000") || !strings.Contains(err.Error(), large(0).Text) {
		t.Errorf("error of a query without free memory = %v, want the wait, the query and the key", err)
	}
}

// TestQueryMaxSamples checks that one query may use max_samples, regardless of the common
// budget.
func TestQueryMaxSamples(t *testing.T) {
	for _, total := range []int64{400_000, 200_000_000} {
		cfg := config()
		cfg.MaxSamples = 300_000
		source := started(t, cfg, sources.Env{Samples: sources.NewBudget(total, "")})
		if _, err := source.Query(t.Context(), sources.Query{Text: "count_over_time(vector(1)[140s:1ms])"}, time.Now()); err != nil {
			t.Errorf("budget %d: %v", total, err)
		}
		if _, err := source.Query(t.Context(), sources.Query{Text: "count_over_time(vector(1)[160s:1ms])"}, time.Now()); err == nil || !strings.Contains(err.Error(), "too many samples") {
			t.Errorf("budget %d: query with too many samples failed with %v", total, err)
		}
	}
}

// TestResultBudget checks that query results count toward their budget, that they contain only the
// requested labels and have the requested time, and that two series with the same labels are an
// error.
func TestResultBudget(t *testing.T) {
	var page strings.Builder
	for i := range 300 {
		fmt.Fprintf(&page, "load{id=\"%d\",queue=\"%d\"} 1\n", i, i%2)
	}
	e := newExporter(t, page.String())
	answers := sources.NewBudget(16<<20, `daemon.query_response_memory = "16Mi"`)
	source := started(t, config(e.address()), sources.Env{Answers: answers})
	eventually(t, source, "count(load)", "{} 300")
	at := time.Now().Truncate(time.Millisecond)
	vector, err := source.Query(t.Context(), sources.Query{Text: "load", Labels: []string{"id"}}, at)
	if err != nil || len(vector.Series) != 300 || answers.Usage().Used == 0 {
		t.Fatalf("got %d series with %d bytes: %v", len(vector.Series), answers.Usage().Used, err)
	}
	for i, series := range vector.Series {
		if !series.At.Equal(at) || len(series.Labels) != 1 && i >= 100 {
			t.Errorf("series %d has time %s and labels %s, want %s and only the label id", i, series.At, series.Labels, at)
		}
	}
	if _, err := source.Query(t.Context(), sources.Query{Text: `label_replace(load, "id", "", "", "")`}, at); err == nil || !strings.Contains(err.Error(), "same labelset") {
		t.Errorf("result with two series of the same labels: got error %v, want \"same labelset\"", err)
	}
}

// TestSubquerySteps checks that a query with too many steps is rejected before its evaluation,
// because the engine does not count them.
func TestSubquerySteps(t *testing.T) {
	for text, want := range map[string]int64{
		"up":                       0,
		"up[":                      0,
		"rate(up[1h])":             0,
		"max_over_time(up[1h:1s])": 3601,
		"max_over_time(up[1h:])":   61,
		"max_over_time(up[1m:1s]) + max_over_time(up[2m:1s])":                           61 + 121,
		"max_over_time(max_over_time(up[1m:1s])[1h:1m])":                                61 + 3661,
		"max_over_time(max_over_time(max_over_time(up[200y:1ms])[200y:1ms])[200y:1ms])": math.MaxInt64,
	} {
		if got := subquerySteps(text); got != want {
			t.Errorf("subquerySteps(%s) = %d, want %d", text, got, want)
		}
	}
	source := started(t, config(), sources.Env{Samples: sources.NewBudget(10_000_000, "")})
	_, err := source.Query(t.Context(), sources.Query{Text: "count_over_time(vector(1)[10000h:1ms])"}, time.Now())
	if want := "the subqueries have 36000000001 steps, more than max_samples = 5000000"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("query error = %v, want %q", err, want)
	}
}
