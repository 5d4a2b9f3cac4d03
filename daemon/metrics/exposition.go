package metrics

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Exposition is what a scrape is answered from: what a daemon counts, its
// autoscalers as they are then, and whatever else is in its registry. It is safe
// for concurrent use.
//
// The registry's way of gathering costs more than a round of the daemon: it
// builds, checks and sorts each of the 40 series that an autoscaler has. WriteText
// writes these series as the text they come to, and nothing is kept of them
// between scrapes. Gather goes the registry's way, for any other format.
type Exposition struct {
	metrics           *Metrics
	rest, autoscalers prometheus.Gatherer
}

// Exposition returns what to scrape; rest is the registry that the metrics were
// made with.
func (m *Metrics) Exposition(rest prometheus.Gatherer) *Exposition {
	autoscalers := prometheus.NewRegistry()
	autoscalers.MustRegister((*collector)(m))
	return &Exposition{metrics: m, rest: rest, autoscalers: autoscalers}
}

// Gather returns all metrics, as a registry does.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	rest, err := e.rest.Gather()
	autoscalers, errAutoscalers := e.autoscalers.Gather()
	return slices.Insert(rest, place(rest), autoscalers...), errors.Join(err, errAutoscalers)
}

// place returns where the families of the autoscalers come among the others; no
// other sorts between them.
func place(rest []*dto.MetricFamily) int {
	at, _ := slices.BinarySearchFunc(rest, families[0].name, func(f *dto.MetricFamily, name string) int {
		return cmp.Compare(f.GetName(), name)
	})
	return at
}

// WriteText writes the metrics of these names in Prometheus's text format, all of
// them where there are none: the same text as that of Gather. What cannot be
// gathered is left out; the error is that of writing.
func (e *Exposition) WriteText(w io.Writer, names ...string) error {
	rest, _ := e.rest.Gather() // one collector that fails does not hide what the others say
	at := place(rest)
	if err := encode(w, rest[:at], names); err != nil {
		return err
	}
	if err := e.metrics.writeText(w, names); err != nil {
		return err
	}
	return encode(w, rest[at:], names)
}

// isAsked reports whether a metric is among the names, or there are none.
func isAsked(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

func encode(w io.Writer, families []*dto.MetricFamily, names []string) error {
	for _, family := range families {
		if !isAsked(names, family.GetName()) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return err
		}
	}
	return nil
}

// count is the number of the autoscalers, which is written with them.
var count = &family{
	name: "hpad_autoscalers", help: "Autoscalers in the configuration in force.", kind: prometheus.GaugeValue,
	desc: prometheus.NewDesc("hpad_autoscalers", "Autoscalers in the configuration in force.", nil, nil),
}

// writeText writes the series of the autoscalers in the metrics of these names.
func (m *Metrics) writeText(w io.Writer, names []string) error {
	all := m.show()
	t := &text{to: w}
	s := &sink{text: t}
	s.addAll(all, names)
	if isAsked(names, count.name) {
		t.begin(count)
		t.pending = append(t.pending, count.name...)
		t.pending = append(t.pending, ' ')
		t.end(float64(len(all)))
	}
	return t.flush()
}

type collector Metrics

func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, family := range families {
		descs <- family.desc
	}
	descs <- count.desc
}

func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	all := (*Metrics)(c).show()
	s := &sink{metrics: metrics}
	s.addAll(all, nil)
	metrics <- prometheus.MustNewConstMetric(count.desc, count.kind, float64(len(all)))
}

// sink takes the series of a scrape, family by family and autoscaler by
// autoscaler. Where there is no text, they are sent as metrics.
type sink struct {
	family  *family
	of      *shown
	text    *text
	metrics chan<- prometheus.Metric
}

// addAll takes the families of these names, of every autoscaler. It stops where
// the text cannot be written.
func (s *sink) addAll(all []shown, names []string) {
	for _, s.family = range families {
		if !isAsked(names, s.family.name) {
			continue
		}
		for i := range all {
			s.of = &all[i]
			s.family.add(s, s.of)
		}
		if s.text != nil && s.text.err != nil {
			return
		}
	}
}

// add takes a series with the values of the family's labels.
func (s *sink) add(value float64, labels ...string) {
	if s.text == nil {
		s.send(value, labels)
		return
	}
	s.text.begin(s.family)
	line := append(s.text.pending, s.family.name...)
	line = append(line, s.of.opening...)
	for i, label := range labels {
		line = appendLabel(line, ',', s.family.labels[i], label)
	}
	s.text.pending = append(line, "} "...)
	s.text.end(value)
}

func (s *sink) send(value float64, labels []string) {
	values := []string{s.of.name}
	for _, label := range labels {
		values = append(values, validText(label))
	}
	s.metrics <- prometheus.MustNewConstMetric(s.family.desc, s.family.kind, value, values...)
}

// time takes a series whose value is a time; none for the zero one.
func (s *sink) time(at time.Time) {
	if !at.IsZero() {
		s.add(float64(at.UnixMilli()) / 1000)
	}
}

type text struct {
	to      io.Writer
	pending []byte
	// begun is the family that has its heading.
	begun *family
	err   error
}

// maxPending is the number of bytes from which they are written.
const maxPending = 32 << 10

// begin writes the heading of a family that has a series, once.
func (t *text) begin(f *family) {
	if t.begun == f {
		return
	}
	t.begun = f
	kind := " gauge\n"
	if f.kind == prometheus.CounterValue {
		kind = " counter\n"
	}
	for _, part := range []string{"# HELP ", f.name, " ", f.help, "\n# TYPE ", f.name, kind} {
		t.pending = append(t.pending, part...)
	}
}

func (t *text) end(value float64) {
	if value == 0 {
		value = 0 // the format has no -0
	}
	t.pending = append(strconv.AppendFloat(t.pending, value, 'g', -1, 64), '\n')
	if len(t.pending) >= maxPending {
		t.err = t.flush()
	}
}

func (t *text) flush() error {
	if t.err == nil {
		_, t.err = t.to.Write(t.pending)
	}
	t.pending = t.pending[:0]
	return t.err
}

var labelEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

// appendLabel appends a label after what separates it from what is before.
func appendLabel(line []byte, separator byte, name, value string) []byte {
	line = append(line, separator)
	line = append(line, name...)
	line = append(line, `="`...)
	line = append(line, labelEscapes.Replace(validText(value))...)
	return append(line, '"')
}

// validText returns a value that a label may have.
func validText(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }
