// Package sourcetest contains the contract suite of all kinds of sources.
package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hpad/hpad/sources"
)

// Kind describes a kind of source for [Run].
type Kind struct {
	// Start returns a source with the series in Series, of which each has the label "queue", and a
	// query that returns them. The source ends with the test. Its name is "local".
	Start func(t *testing.T, env sources.Env) (source sources.Source, query string)
	// Missing is a valid query with a result without series. Invalid is a query that the source
	// rejects.
	Missing, Invalid string
	// Series replaces the variable Series, or is nil. A kind whose results are single values without
	// labels has one series with the key "".
	Series map[string]float64
	// Fail makes all later queries of the source fail, or is nil if queries of this kind do not need
	// a server.
	Fail func()
}

// Series maps values of the label "queue" to values that a source must return unchanged.
var Series = map[string]float64{"a": 1.5, "b": -0.25, "nan": math.NaN(), "infinite": math.Inf(1), "large": 1e300}

// Run runs the suite. Every kind of source must pass it.
func Run(t *testing.T, kind Kind) {
	budget := sources.NewBudget(64<<20, `daemon.query_response_memory = "64Mi"`)
	source, text := kind.Start(t, sources.Env{Answers: budget})
	query := sources.Query{Text: text, Labels: []string{"queue"}}
	want := kind.Series
	if want == nil {
		want = Series
	}
	for _, row := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"values", func(t *testing.T) { values(t, source, query, want) }},
		{"memory", func(t *testing.T) { memory(t, source, query, budget) }},
		{"missing", func(t *testing.T) { missing(t, source, kind.Missing) }},
		{"invalid", func(t *testing.T) { invalid(t, source, kind.Invalid) }},
		{"canceled", func(t *testing.T) { canceled(t, source, query) }},
		{"concurrent", func(t *testing.T) { concurrent(t, source, query, want) }},
		{"failure", func(t *testing.T) { failure(t, source, query, kind.Fail) }},
	} {
		t.Run(row.name, row.run)
	}
}

// values checks that the source returns each series with its labels and with its value, also a
// special one: package policy has the rules for such values.
func values(t *testing.T, source sources.Source, query sources.Query, want map[string]float64) {
	at := time.Now().Truncate(time.Millisecond)
	vector, err := source.Query(t.Context(), query, at)
	if err != nil {
		t.Fatal(err)
	}
	defer vector.Release()
	if got, want := shown(&vector), shownSeries(want); got != want {
		t.Errorf("Query() =\n%s\nwant\n%s", got, want)
	}
	for _, series := range vector.Series {
		if series.At.IsZero() || series.At.After(at) {
			t.Errorf("series %s has the time %s, want the time of the query (%s) or an earlier one", series.Labels, series.At, at)
		}
	}
	if len(vector.Warnings) > 0 {
		t.Errorf("warnings = %q, want none", vector.Warnings)
	}
}

// memory checks that a result counts toward its budget until it is released.
func memory(t *testing.T, source sources.Source, query sources.Query, budget *sources.Budget) {
	before := budget.Usage().Used
	vector, err := source.Query(t.Context(), query, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if used := budget.Usage().Used - before; used <= 0 {
		t.Errorf("the result uses %d bytes of the budget", used)
	}
	vector.Release()
	if used := budget.Usage().Used - before; used != 0 {
		t.Errorf("the result uses %d bytes of the budget after Release", used)
	}
}

// missing checks that a result without series is no error: package policy decides what it means.
func missing(t *testing.T, source sources.Source, query string) {
	vector, err := source.Query(t.Context(), sources.Query{Text: query}, time.Now())
	if err != nil || len(vector.Series) > 0 {
		t.Errorf("Query(%s) = %v, %v, want no series and no error", query, vector.Series, err)
	}
	vector.Release()
}

// invalid checks that the error of a query names the source and the query, and has the class that
// blames the query.
func invalid(t *testing.T, source sources.Source, query string) {
	_, err := source.Query(t.Context(), sources.Query{Text: query}, time.Now())
	if _, ok := errors.AsType[*sources.QueryError](err); !ok {
		t.Errorf("Query(%s) = %v, want a QueryError", query, err)
	}
	names(t, err, query)
}

func names(t *testing.T, err error, query string) {
	t.Helper()
	if want := fmt.Sprintf(`source "local": query %q`, query); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want it to contain %s", err, want)
	}
}

func canceled(t *testing.T, source sources.Source, query sources.Query) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Query(ctx, query, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("Query() with a canceled context = %v, want context.Canceled", err)
	}
}

func concurrent(t *testing.T, source sources.Source, query sources.Query, want map[string]float64) {
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			vector, err := source.Query(t.Context(), query, time.Now())
			if err != nil || shown(&vector) != shownSeries(want) {
				t.Errorf("Query() =\n%s, %v", shown(&vector), err)
			}
			vector.Release()
		})
	}
	wait.Wait()
}

// failure checks that the failure of a server is an error that does not blame the query.
func failure(t *testing.T, source sources.Source, query sources.Query, fail func()) {
	if fail == nil {
		return
	}
	fail()
	_, err := source.Query(t.Context(), query, time.Now())
	if _, ok := errors.AsType[*sources.QueryError](err); ok {
		t.Errorf("Query() of a failed server = %v, want an error that is no QueryError", err)
	}
	names(t, err, query.Text)
}

// shown returns the labels "queue" and the values of a result in the order of the labels.
func shown(vector *sources.Vector) string {
	var lines []string
	for _, series := range vector.Series {
		lines = append(lines, fmt.Sprintf("%s %v", series.Labels.Get("queue"), series.Value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func shownSeries(want map[string]float64) string {
	vector := sources.Vector{}
	for queue, value := range want {
		vector.Series = append(vector.Series, sources.Series{Labels: sources.Labels{{Name: "queue", Value: queue}}, Value: value})
	}
	return shown(&vector)
}
