package metrics

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

func written(t interface{ Fatal(...any) }, exposition *Exposition) string {
	var text strings.Builder
	if err := exposition.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestHiddenSeries checks that hidden series of autoscalers appear only in scrapes that name them.
func TestHiddenSeries(t *testing.T) {
	m, exposition := exercised(t)
	whole := strings.SplitAfter(written(t, exposition), "\n")
	m.ShowSeries(false)
	want := slices.DeleteFunc(slices.Clone(whole), func(line string) bool { return strings.Contains(line, "hpad_autoscaler_") })
	if diff := cmp.Diff(strings.Join(want, ""), written(t, exposition)); diff != "" || len(want) == len(whole) {
		t.Errorf("hidden (-want +got):\n%s", diff)
	}
	var named strings.Builder
	if err := exposition.WriteText(&named, "hpad_autoscaler_failing"); err != nil || !strings.Contains(named.String(), "hpad_autoscaler_failing{autoscaler=\"checkout\"} ") {
		t.Errorf("metrics requested by name = %q, %v", named.String(), err)
	}
	m.ShowSeries(true)
	if diff := cmp.Diff(strings.Join(whole, ""), written(t, exposition)); diff != "" {
		t.Errorf("series after ShowSeries(true) (-before +after):\n%s", diff)
	}
}

// TestLabelsAreValid checks that the text format can represent arbitrary names.
func TestLabelsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`a"b`, `a\b`, "a\nb", "\xff\xfe", "é", ""}))
		view := checkout()
		view.Name, view.Reference = text.Draw(t, "name"), text.Draw(t, "fleet")+"/"+text.Draw(t, "target")
		view.Spec.Metrics[0].Name = text.Draw(t, "metric")
		m := New(nil)
		m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler{view}) })
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(written(t, m.Exposition(prometheus.NewRegistry()))))
		if err != nil {
			t.Fatal(err)
		}
		labels := families["hpad_autoscaler_metric_target"].Metric[0].Label
		for name, want := range map[string]string{"autoscaler": view.Name, "metric": view.Spec.Metrics[0].Name} {
			at := slices.IndexFunc(labels, func(l *dto.LabelPair) bool { return l.GetName() == name })
			if got := labels[at].GetValue(); got != (labelCache{}).get(name, want).GetValue() || !utf8.ValidString(got) {
				t.Errorf("label %s = %q, want %q", name, got, want)
			}
		}
	})
}

func TestFailingCollector(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg)
	reg.MustRegister(prometheus.CollectorFunc(func(metrics chan<- prometheus.Metric) {
		metrics <- prometheus.NewInvalidMetric(prometheus.NewDesc("hpad_broken", "Broken.", nil, nil), errors.New("collection failed"))
	}))
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values([]api.Autoscaler{checkout()}) })
	for _, line := range []string{"hpad_fleets 0\n", "hpad_autoscalers 1\n"} {
		if got := written(t, m.Exposition(reg)); !strings.Contains(got, line) {
			t.Errorf("%q is missing in:\n%s", line, got)
		}
	}
}

// fleetOf returns the exposition of count autoscalers with three metrics and random values.
func fleetOf(count int) *Exposition {
	random := rand.New(rand.NewPCG(1, 2))
	reg := prometheus.NewRegistry()
	m := New(reg)
	views := make([]api.Autoscaler, count)
	for i := range views {
		view := checkout()
		view.Name = fmt.Sprintf("shop-%d/checkout-%06d", i%7, i)
		view.Reference = "prod/" + view.Name
		view.Status.CurrentReplicas, view.Status.DesiredReplicas = random.Int32N(40), random.Int32N(40)
		view.Evaluation.Last = now.Add(time.Duration(random.Int64N(int64(15 * time.Second))))
		view.Status.LastScaleTime = now.Add(-time.Duration(random.Int64N(int64(time.Hour))))
		view.Evaluation.DurationSeconds = random.Float64()
		view.Instances = api.Instances{Ready: random.Int32N(40), Pending: random.Int32N(3)}
		results := view.Decision.Metrics
		results[0].Current.AverageUtilization = new(random.Int32N(120))
		results[1] = policy.MetricResult{TargetType: policy.AverageValueTarget, Current: policy.MetricStatus{AverageValueMilli: new(random.Int64N(60_000))}, Proposal: random.Int32N(40)}
		results[2].Current.ValueMilli = new(random.Int64N(200_000))
		m.Autoscaler(view.Name)
		views[i] = view
	}
	slices.SortFunc(views, func(a, b api.Autoscaler) int { return strings.Compare(a.Name, b.Name) })
	m.Show(func() iter.Seq[api.Autoscaler] { return slices.Values(views) })
	return m.Exposition(reg)
}

// BenchmarkScrape measures complete scrapes through the daemon's handler: uncompressed, compressed,
// and for a single metric.
func BenchmarkScrape(b *testing.B) {
	// text is the Accept header of Prometheus.
	const text = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	for _, count := range []int{1_000, 10_000, 100_000} {
		handler := api.NewHandler(nil, fleetOf(count), nil)
		for _, test := range []struct{ name, path, accept, encoding string }{
			{"gzip", "/metrics", text, "gzip"},
			{"identity", "/metrics", text, "identity"},
			{"one", "/metrics?name[]=hpad_autoscaler_failing", text, "gzip"},
		} {
			b.Run(fmt.Sprintf("%s/%d", test.name, count), func(b *testing.B) {
				request := httptest.NewRequest(http.MethodGet, test.path, http.NoBody)
				request.Header.Set("Accept", test.accept)
				request.Header.Set("Accept-Encoding", test.encoding)
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					response := httptest.NewRecorder()
					handler.ServeHTTP(response, request)
					if size = response.Body.Len(); response.Code != http.StatusOK {
						b.Fatalf("status %d", response.Code)
					}
				}
				b.ReportMetric(float64(size), "bytes-sent")
			})
		}
	}
}
