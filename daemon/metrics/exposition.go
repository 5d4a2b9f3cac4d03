package metrics

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/daemon/redact"
)

// Exposition gathers all metrics for a scrape: those of the registry and the series of autoscalers.
// It is safe for concurrent use.
//
// Exposition writes the series of autoscalers directly as text, family by family. A registry would
// build, check and sort each series. For the 480,000 series of 10,000 autoscalers, this needs four
// times the CPU time and several hundred MiB.
type Exposition struct {
	metrics *Metrics
	rest    prometheus.Gatherer
}

// Exposition returns the source for scrapes. Rest is the registry with the other metrics.
func (m *Metrics) Exposition(rest prometheus.Gatherer) *Exposition {
	return &Exposition{metrics: m, rest: rest}
}

// Gather returns the families that WriteText writes, sorted by name. It holds all series in memory.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&text)
	return slices.SortedFunc(maps.Values(families), func(a, b *dto.MetricFamily) int {
		return cmp.Compare(a.GetName(), b.GetName())
	}), err
}

// WriteText writes the named metrics in the Prometheus text format, sorted by name. Without names,
// it writes all metrics except those that ShowSeries hides. It omits metrics that cannot be
// gathered. It returns an error only if writing fails.
func (e *Exposition) WriteText(w io.Writer, names ...string) error {
	rest, _ := e.rest.Gather() // ignore errors: a failed collector must not hide the others
	at := place(rest)
	encoder := expfmt.NewEncoder(w, expfmt.NewFormat(expfmt.TypeTextPlain))
	if err := encode(encoder, rest[:at], names); err != nil {
		return err
	}
	if err := e.metrics.write(w, names); err != nil {
		return err
	}
	return encode(encoder, rest[at:], names)
}

// place returns the position in rest where the families of autoscalers belong. No other family
// sorts between them.
func place(rest []*dto.MetricFamily) int {
	at, _ := slices.BinarySearchFunc(rest, families[0].name, func(f *dto.MetricFamily, name string) int {
		return cmp.Compare(f.GetName(), name)
	})
	return at
}

// isAsked reports whether a scrape requests a metric. Without names, it requests all metrics.
func isAsked(names []string, name string) bool {
	return len(names) == 0 || slices.Contains(names, name)
}

func encode(encoder expfmt.Encoder, families []*dto.MetricFamily, names []string) error {
	for _, family := range families {
		if !isAsked(names, family.GetName()) {
			continue
		}
		if err := encoder.Encode(family); err != nil {
			return err
		}
	}
	return nil
}

// count is the number of autoscalers. It is written together with their series.
var count = &family{
	name: "hpad_autoscalers", help: "Autoscalers in the active configuration.", kind: prometheus.GaugeValue,
}

// asked returns the requested families. Without names, it returns all families unless ShowSeries
// hides them.
func (m *Metrics) asked(names []string) []*family {
	if len(names) == 0 && !m.withoutSeries.Load() {
		return families
	}
	var asked []*family
	for _, family := range families {
		if slices.Contains(names, family.name) {
			asked = append(asked, family)
		}
	}
	return asked
}

// write writes the requested families of every autoscaler and the number of autoscalers. It stops
// at the first error.
func (m *Metrics) write(w io.Writer, names []string) error {
	asked, counted := m.asked(names), isAsked(names, count.name)
	if len(asked) == 0 && !counted {
		return nil
	}
	all := m.show()
	s := &sink{to: w}
	for _, s.family = range asked {
		for i := range all {
			s.of = &all[i]
			s.family.add(s, s.of)
		}
		if s.err != nil {
			return s.err
		}
	}
	if counted {
		s.family, s.of = count, nil
		s.add(float64(len(all)))
	}
	s.flush()
	return s.err
}

// sink writes the series of a scrape, family by family and autoscaler by autoscaler.
type sink struct {
	to      io.Writer
	pending []byte
	family  *family
	// of is nil for series that do not belong to an autoscaler.
	of *shown
	// begun is the last family whose heading was written.
	begun *family
	// metrics is a buffer that is reused for each autoscaler.
	metrics []shownMetric
	err     error
}

// maxPending is the number of buffered bytes that triggers a write.
const maxPending = 32 << 10

// begin writes the family's heading before its first series.
func (s *sink) begin() {
	if s.begun == s.family {
		return
	}
	s.begun = s.family
	kind := " gauge\n"
	if s.family.kind == prometheus.CounterValue {
		kind = " counter\n"
	}
	for _, part := range []string{"# HELP ", s.family.name, " ", s.family.help, "\n# TYPE ", s.family.name, kind} {
		s.pending = append(s.pending, part...)
	}
}

// add writes a series with a value for each label of the family.
func (s *sink) add(value float64, labels ...string) {
	s.begin()
	line := append(s.pending, s.family.name...)
	if s.of != nil {
		line = append(line, `{autoscaler="`...)
		line = append(line, s.of.escaped...)
		line = append(line, '"')
		for i, label := range labels {
			line = appendLabel(line, s.family.labels[i], label)
		}
		line = append(line, '}')
	}
	if value == 0 {
		value = 0 // the format has no -0
	}
	s.pending = append(strconv.AppendFloat(append(line, ' '), value, 'g', -1, 64), '\n')
	if len(s.pending) >= maxPending {
		s.flush()
	}
}

// time writes a series whose value is a time, unless the time is unknown.
func (s *sink) time(at instant) {
	if at.known {
		s.add(float64(at.milli) / 1000)
	}
}

func (s *sink) flush() {
	if s.err == nil {
		_, s.err = s.to.Write(s.pending)
	}
	s.pending = s.pending[:0]
}

var labelEscapes = strings.NewReplacer("\\", `\\`, "\n", `\n`, `"`, `\"`)

func appendLabel(line []byte, name, value string) []byte {
	line = append(line, ',')
	line = append(line, name...)
	line = append(line, `="`...)
	line = append(line, labelEscapes.Replace(validText(value))...)
	return append(line, '"')
}

// validText returns a valid label value without secrets. Every label value of an autoscaler's
// series passes through it.
func validText(value string) string { return redact.Text(strings.ToValidUTF8(value, "\uFFFD")) }
