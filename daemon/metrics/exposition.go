package metrics

import (
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/hpad/hpad/daemon/redact"
)

// Exposition gathers all metrics for a scrape: the metrics of the registry and the series of
// autoscalers. It is safe for concurrent use.
//
// A scrape builds and writes the series of autoscalers family by family. A registry would first
// build all 480,000 series of 10,000 autoscalers, which takes several hundred MiB.
type Exposition struct {
	metrics *Metrics
	rest    prometheus.Gatherer
}

// Exposition returns the source for scrapes. rest is the registry with the other metrics.
func (m *Metrics) Exposition(rest prometheus.Gatherer) *Exposition {
	return &Exposition{metrics: m, rest: rest}
}

// Gather returns the families that WriteText writes. It holds all series in memory.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	return slices.Collect(e.families(nil)), nil
}

// WriteText writes the named metrics in the Prometheus text format. Without names, it writes all
// metrics except those that ShowSeries hides. It omits metrics that cannot be gathered. It returns
// an error only if writing fails.
func (e *Exposition) WriteText(w io.Writer, names ...string) error {
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	for family := range e.families(names) {
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	return nil
}

// families returns the named families, or all families without names. It omits empty families.
func (e *Exposition) families(names []string) iter.Seq[*dto.MetricFamily] {
	isRequested := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return func(yield func(*dto.MetricFamily) bool) {
		rest, _ := e.rest.Gather() // ignore errors: a failed collector must not hide the other metrics
		for _, family := range rest {
			if isRequested(family.GetName()) && !yield(family) {
				return
			}
		}
		cache := labelCache{}
		all := e.metrics.allViews(cache)
		if isRequested(count) && !yield(countOf(all)) {
			return
		}
		for _, family := range families {
			if !isRequested(family.name) || len(names) == 0 && e.metrics.withoutSeries.Load() {
				continue
			}
			if series := family.of(all, cache); len(series.Metric) > 0 && !yield(series) {
				return
			}
		}
	}
}

// count is the name of the metric for the number of autoscalers.
const count = "hpad_autoscalers"

func countOf(all []view) *dto.MetricFamily {
	return &dto.MetricFamily{
		Name: new(count), Help: new("Autoscalers in the active configuration."), Type: dto.MetricType_GAUGE.Enum(),
		Metric: []*dto.Metric{{Gauge: &dto.Gauge{Value: new(float64(len(all)))}}},
	}
}

// maxLabels is the maximum number of labels of a series.
const maxLabels = 5

// sample contains a metric and the values that it points to, so that one allocation suffices.
type sample struct {
	metric  dto.Metric
	gauge   dto.Gauge
	counter dto.Counter
	value   float64
	labels  [maxLabels]*dto.LabelPair
}

// labelCache contains the labels of one scrape, because most labels occur in many series.
type labelCache map[[2]string]*dto.LabelPair

// get returns a label. Its value is valid UTF-8 without secrets.
func (c labelCache) get(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if c[key] == nil {
		c[key] = &dto.LabelPair{Name: &name, Value: new(redact.Text(strings.ToValidUTF8(value, "\uFFFD")))}
	}
	return c[key]
}

// of returns the family with the series of all autoscalers.
func (f *family) of(all []view, cache labelCache) *dto.MetricFamily {
	family := &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: &f.kind, Metric: make([]*dto.Metric, 0, len(all))}
	for i := range all {
		f.each(&all[i], func(value float64, labels ...string) {
			s := &sample{value: value}
			s.metric.Label = append(s.labels[:0], all[i].label)
			for n, text := range labels {
				s.metric.Label = append(s.metric.Label, cache.get(f.labels[n], text))
			}
			if f.kind == dto.MetricType_COUNTER {
				s.counter.Value, s.metric.Counter = &s.value, &s.counter
			} else {
				s.gauge.Value, s.metric.Gauge = &s.value, &s.gauge
			}
			family.Metric = append(family.Metric, &s.metric)
		})
	}
	return family
}
