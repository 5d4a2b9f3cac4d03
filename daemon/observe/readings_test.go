package observe_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/config"
	"github.com/hpad/hpad/daemon/daemontest"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/sources"
)

// TestReadingsRejected checks that a metric fails and never scales down if its query fails, if its
// value is unusable or outside valid, or if it has fewer series than min_series. Values at the bounds
// of valid are accepted.
func TestReadingsRejected(t *testing.T) {
	several := func(values []float64, err error) func(context.Context, time.Time) (sources.Vector, error) {
		return func(_ context.Context, at time.Time) (sources.Vector, error) {
			var all sources.Vector
			for _, value := range values {
				all.Series = append(all.Series, daemontest.Vector(value, at).Series...)
			}
			return all, err
		}
	}
	for name, c := range map[string]struct {
		in      config.Input
		values  []float64
		want    int32
		message string
		object  bool
		err     error
	}{
		"error":              {config.Input{}, nil, 6, "connection refused", false, errors.New("connection refused")},
		"several of object":  {config.Input{}, []float64{1, 2}, 6, "2 series", true, nil},
		"NaN":                {config.Input{}, []float64{math.NaN()}, 6, "NaN", false, nil},
		"infinite":           {config.Input{}, []float64{math.Inf(1)}, 6, "infinite", false, nil},
		"negative":           {config.Input{}, []float64{-4}, 6, "negative", false, nil},
		"as upstream":        {config.Input{}, []float64{1}, 1, "", false, nil},
		"below":              {config.Input{Valid: &config.Range{Min: 1001, Max: 100_000}}, []float64{1}, 6, `has the value 1, which is outside valid = [1.001, 100]`, false, nil},
		"above":              {config.Input{Valid: &config.Range{Min: 0, Max: 7_999}}, []float64{8}, 6, `has the value 8, which is outside valid = [0, 7.999]`, false, nil},
		"lowest valid":       {config.Input{Valid: &config.Range{Min: 1_000, Max: 100_000}}, []float64{1}, 1, "", false, nil},
		"highest valid":      {config.Input{Valid: &config.Range{Min: 0, Max: 8_000}}, []float64{8}, 8, "", false, nil},
		"one of two invalid": {config.Input{Valid: &config.Range{Min: 0, Max: 5_000}}, []float64{1, 9}, 6, "has the value 9", false, nil},
		"too few":            {config.Input{MinSeries: 2}, []float64{1}, 6, "1 series are selected, but min_series = 2", false, nil},
		"no series":          {config.Input{MinSeries: 1}, nil, 6, "0 series are selected, but min_series = 1", false, nil},
		"empty":              {config.Input{}, nil, 6, "the source returned no value", false, nil},
		"empty is zero":      {config.Input{EmptyZero: true}, nil, 1, "", false, nil},
		"none selected":      {config.Input{EmptyZero: true, Select: sources.Labels{{Name: "queue", Value: "a"}}}, []float64{6}, 6, `the query returned 1 series, but none matches select, {queue="a"}; their labels are {}`, false, nil},
		"not empty":          {config.Input{EmptyZero: true}, []float64{4}, 4, "", false, nil},
		"enough":             {config.Input{MinSeries: 2}, []float64{1, 2}, 3, "", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) {
					a.Inputs[0].Valid, a.Inputs[0].MinSeries = c.in.Valid, c.in.MinSeries
					a.Inputs[0].EmptyZero, a.Inputs[0].Select = c.in.EmptyZero, c.in.Select
					if c.object {
						a.Spec.Metrics[0].Type, a.Spec.Metrics[0].Object = policy.ObjectMetric, "route/main"
					}
				})
				w.Source().Set("web", several(c.values, c.err))
				w.Start()
				w.Advance(10 * time.Minute)
				if got := w.View("web").Status.CurrentReplicas; got != c.want {
					t.Errorf("count = %d, want %d", got, c.want)
				}
				condition, message := w.Condition("web", policy.ScalingActive), w.View("web").Evaluation.Error
				if failed := strings.HasPrefix(condition, "False/"); failed != (c.message != "") || !strings.Contains(message, c.message) {
					t.Errorf("ScalingActive = %s with error %q, want %q", condition, message, c.message)
				}
			})
		})
	}
}

// viewsOf returns the texts that "hpad get", "hpad explain" and "hpad history" print about the
// metrics of an autoscaler.
func viewsOf(t *testing.T, w *daemontest.World, name string) map[string]string {
	t.Helper()
	view := w.View(name)
	var explained strings.Builder
	if err := explain.Write(&explained, view.Explanation(), time.UTC); err != nil {
		t.Fatal(err)
	}
	recorded, err := w.Daemon.History(t.Context(), name, time.Time{}, time.Time{}, 0)
	if err != nil || len(recorded) == 0 {
		t.Fatal(recorded, err)
	}
	return map[string]string{
		"get": explain.TargetsText(view.Spec.Metrics, view.Status.Metrics), "explain": explained.String(), "history": explain.Why(recorded[len(recorded)-1], time.UTC),
	}
}

// TestEmptyAsZero checks that only a successful result without any series is treated as zero, and
// that each view shows it.
func TestEmptyAsZero(t *testing.T) {
	responds := func(vector sources.Vector, err error) func(context.Context, time.Time) (sources.Vector, error) {
		return func(context.Context, time.Time) (sources.Vector, error) { return vector, err }
	}
	object := func(a *config.Autoscaler) {
		metric := &a.Spec.Metrics[0]
		metric.Type, metric.Object = policy.ObjectMetric, "topic/main"
	}
	for name, c := range map[string]struct {
		result  func(context.Context, time.Time) (sources.Vector, error)
		edit    func(*config.Autoscaler)
		want    int32
		message string
	}{
		"none selected": {responds(sources.Vector{Series: []sources.Series{
			{Labels: sources.Labels{{Name: "queue", Value: "checkout"}}, Value: 9}, {Labels: sources.Labels{{Name: "queue", Value: "mails"}}, Value: 9},
		}}, nil), func(a *config.Autoscaler) {
			a.Inputs[0].Select = sources.Labels{{Name: "queue", Value: "chekout"}}
		}, 6, `but none matches select, {queue="chekout"}; their labels are {queue="checkout"}, {queue="mails"}`},
		"no series":             {responds(sources.Vector{}, nil), func(*config.Autoscaler) {}, 1, ""},
		"object metric":         {responds(sources.Vector{}, nil), object, 1, ""},
		"without the key":       {responds(sources.Vector{}, nil), func(a *config.Autoscaler) { a.Inputs[0].EmptyZero = false }, 6, "the source returned no value"},
		"query failed":          {responds(sources.Vector{}, errors.New("refused")), func(*config.Autoscaler) {}, 6, "refused"},
		"partial":               {responds(sources.Vector{Warnings: []string{"one store is down"}, Remedy: "set x"}, nil), func(*config.Autoscaler) {}, 6, "does not count as zero because of a warning: one store is down; to use such results, set x"},
		"partial object metric": {responds(sources.Vector{Warnings: []string{"one store is down"}}, nil), object, 6, "does not count as zero because of a warning: one store is down"},
		"not a number":          {responds(daemontest.Vector(math.NaN(), time.Now()), nil), func(*config.Autoscaler) {}, 6, "not a number"},
		"no response in time": {func(ctx context.Context, _ time.Time) (sources.Vector, error) {
			<-ctx.Done()
			return sources.Vector{}, ctx.Err()
		}, func(*config.Autoscaler) {}, 6, "no response"},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) {
					a.Inputs[0].EmptyZero = true
					c.edit(a)
				})
				w.Start()
				w.Advance(time.Minute)
				w.Source().Set("web", c.result)
				w.Advance(10 * time.Minute)
				if got := w.Fleet().Replicas("web"); got != c.want {
					t.Errorf("count = %d, want %d", got, c.want)
				}
				if message := w.View("web").Evaluation.Error; (message == "") != (c.message == "") || !strings.Contains(message, c.message) {
					t.Errorf("error = %q, want %q", message, c.message)
				}
				for name, text := range viewsOf(t, w, "web") {
					if empty := strings.Contains(text, "empty"); empty != (c.message == "") {
						t.Errorf("%s mentions an empty result: %t, want %t\n%s", name, empty, c.message == "", text)
					}
				}
			})
		})
	}
}

// TestPartialResults checks that a result that its server marks as partial can scale up but not
// down, unless compat is strict, and that all views show the warning.
func TestPartialResults(t *testing.T) {
	const warning = "No StoreAPIs matched: store unavailable"
	for name, c := range map[string]struct {
		value   float64
		vector  sources.Vector
		strict  bool
		want    int32
		problem string
	}{
		"up":                      {120, sources.Vector{Warnings: []string{warning}}, false, 120, "the result of queue is partial (" + warning + ")"},
		"the same":                {6, sources.Vector{Warnings: []string{warning}}, false, 6, "the result of queue is partial (" + warning + ")"},
		"down":                    {3, sources.Vector{Warnings: []string{warning}}, false, 6, "FailedGetExternalMetric: 1 of 1 metrics failed, first external metric queue: a partial result does not scale down: " + warning},
		"strict":                  {3, sources.Vector{Warnings: []string{warning}}, true, 3, ""},
		"annotated":               {3, sources.Vector{Warnings: []string{"PromQL warning: quantile value should be between 0 and 1"}}, false, 3, ""},
		"with an info":            {3, sources.Vector{Infos: []string{"PromQL info: metric might not be a counter"}}, false, 3, ""},
		"with warnings and infos": {3, sources.Vector{Warnings: []string{"PromQL warning: bucket", warning}, Infos: []string{"i"}}, false, 6, warning},
	} {
		t.Run(name, func(t *testing.T) {
			daemontest.Run(t, func(t *testing.T, w *daemontest.World) {
				if c.strict {
					w.Config.Daemon.Compat = config.CompatStrict
				}
				w.AddWithValue("web", 6, 6, func(a *config.Autoscaler) { a.Spec.MaxReplicas = 200 })
				w.Start()
				w.Advance(time.Minute)
				w.Source().Set("web", func(_ context.Context, at time.Time) (sources.Vector, error) {
					vector := daemontest.Vector(c.value, at)
					vector.Warnings, vector.Infos = c.vector.Warnings, c.vector.Infos
					return vector, nil
				})
				w.Advance(20 * time.Minute)
				if got := w.Fleet().Replicas("web"); got != c.want {
					t.Errorf("count = %d, want %d", got, c.want)
				}
				view := w.View("web")
				listed := view
				listed.Decision = nil // the list of "hpad get" has no decisions
				if problem := explain.Problem(listed, time.Now()); !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
					t.Errorf("PROBLEM = %q, want %q", problem, c.problem)
				}
				var explained strings.Builder
				if err := explain.Write(&explained, view.Explanation(), time.UTC); err != nil {
					t.Fatal(err)
				}
				for _, remark := range append(c.vector.Warnings, c.vector.Infos...) {
					if !strings.Contains(explained.String(), "warning: "+remark) {
						t.Errorf("%q is missing in\n%s", remark, explained.String())
					}
				}
				recorded, err := w.Daemon.History(t.Context(), "web", time.Time{}, time.Time{}, 0)
				if err != nil {
					t.Fatal(err)
				}
				warned := func(e api.Recorded) bool { return strings.Contains(explain.Why(e, time.UTC), warning) }
				if got := slices.ContainsFunc(recorded, warned); got != (c.problem != "") {
					t.Errorf("warning in the history: %t, want %t", got, c.problem != "")
				}
			})
		})
	}
}
