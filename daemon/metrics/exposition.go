package metrics

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/hpad/hpad/daemon/redact"
)

// Exposition is what a scrape is answered from: what a daemon counts, its
// autoscalers as they are then, and whatever else is in its registry. It is safe
// for concurrent use.
//
// The registry's way of gathering costs more than a round of the daemon: it
// builds, checks and sorts each of the 40 series that an autoscaler has. Here they
// are written as the text, or the protocol buffers, that they come to, family by
// family, and nothing is kept of them between scrapes.
type Exposition struct {
	metrics *Metrics
	rest    prometheus.Gatherer
}

// Exposition returns what to scrape; rest is the registry that the metrics were
// made with.
func (m *Metrics) Exposition(rest prometheus.Gatherer) *Exposition {
	return &Exposition{metrics: m, rest: rest}
}

// Gather returns all metrics, as a registry does. It takes memory for each series:
// it is for formats that nobody asks for but to look at them.
func (e *Exposition) Gather() ([]*dto.MetricFamily, error) {
	rest, err := e.rest.Gather()
	encoded := new(bytes.Buffer)
	errAutoscalers := e.metrics.write(&sink{delimited: &delimited{to: encoded}}, e.metrics.asked(nil), true)
	var autoscalers []*dto.MetricFamily
	for reader := bufio.NewReader(encoded); errAutoscalers == nil; {
		family := new(dto.MetricFamily)
		if errAutoscalers = wholeFamily.UnmarshalFrom(reader, family); errAutoscalers == nil {
			autoscalers = append(autoscalers, family)
		}
	}
	if errors.Is(errAutoscalers, io.EOF) {
		errAutoscalers = nil
	}
	return slices.Insert(rest, place(rest), autoscalers...), errors.Join(err, errAutoscalers)
}

// wholeFamily reads what this process has written, however long it is.
var wholeFamily = protodelim.UnmarshalOptions{MaxSize: -1}

// place returns where the families of the autoscalers come among the others; no
// other sorts between them.
func place(rest []*dto.MetricFamily) int {
	at, _ := slices.BinarySearchFunc(rest, families[0].name, func(f *dto.MetricFamily, name string) int {
		return cmp.Compare(f.GetName(), name)
	})
	return at
}

// WriteText writes the metrics of these names in Prometheus's text format, or, where
// there are none, all that are not left out: the same text as that of Gather. What cannot be
// gathered is left out; the error is that of writing.
func (e *Exposition) WriteText(w io.Writer, names ...string) error {
	return e.write(w, expfmt.NewFormat(expfmt.TypeTextPlain), &sink{text: &text{to: w}}, names)
}

// WriteDelimited writes what WriteText does as protocol buffers, each after its
// length. Of the autoscalers' it holds one family in memory.
func (e *Exposition) WriteDelimited(w io.Writer, names ...string) error {
	return e.write(w, expfmt.NewFormat(expfmt.TypeProtoDelim), &sink{delimited: &delimited{to: w}}, names)
}

func (e *Exposition) write(w io.Writer, format expfmt.Format, s *sink, names []string) error {
	asked := e.metrics.asked(names)
	counted := isAsked(names, count.name)
	rest := e.gatherRest(names)
	at := place(rest)
	encoder := expfmt.NewEncoder(w, format)
	if err := encode(encoder, rest[:at], names); err != nil {
		return err
	}
	if err := e.metrics.write(s, asked, counted); err != nil {
		return err
	}
	return encode(encoder, rest[at:], names)
}

// gatherRest returns what is in the registry, unless nothing of it is asked for. One
// collector that fails does not hide what the others say.
func (e *Exposition) gatherRest(names []string) []*dto.MetricFamily {
	isAutoscalers := func(name string) bool {
		return name == count.name || slices.ContainsFunc(families, func(f *family) bool { return f.name == name })
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !isAutoscalers(name) }) {
		return nil
	}
	rest, _ := e.rest.Gather()
	return rest
}

// isAsked reports whether a metric is among the names, or there are none.
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

// count is the number of the autoscalers, which is written with them.
var count = &family{
	name: "hpad_autoscalers", help: "Autoscalers in the configuration in force.", kind: prometheus.GaugeValue,
}

// asked returns the families of these names, all of them where there are no names,
// unless they are left out then.
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

// write gives a sink the families that are asked for, of every autoscaler, and their
// count where that is. It stops where they cannot be written.
func (m *Metrics) write(s *sink, asked []*family, counted bool) error {
	if len(asked) == 0 && !counted {
		return nil
	}
	all := m.show()
	for _, s.family = range asked {
		for i := range all {
			s.of = &all[i]
			s.family.add(s, s.of)
		}
		if err := s.err(); err != nil {
			return err
		}
	}
	if counted {
		s.family, s.of = count, nil
		s.add(float64(len(all)))
	}
	if s.text != nil {
		return s.text.flush()
	}
	return s.delimited.flush()
}

// sink takes the series of a scrape, family by family and autoscaler by
// autoscaler, as text or as protocol buffers.
type sink struct {
	family *family
	// of is nil for what is of none.
	of        *shown
	text      *text
	delimited *delimited
	// metrics is memory for those of an autoscaler.
	metrics []shownMetric
}

// err is why what was written could not be.
func (s *sink) err() error {
	if s.text != nil {
		return s.text.err
	}
	return s.delimited.err
}

// add takes a series with the values of the family's labels.
func (s *sink) add(value float64, labels ...string) {
	if s.text != nil {
		s.text.add(s.family, s.of, value, labels)
		return
	}
	s.delimited.add(s.family, s.of, value, labels)
}

// time takes a series whose value is a time; none for the zero one.
func (s *sink) time(at instant) {
	if at.known {
		s.add(float64(at.milli) / 1000)
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

func (t *text) add(f *family, of *shown, value float64, labels []string) {
	t.begin(f)
	line := append(t.pending, f.name...)
	if of != nil {
		line = append(line, `{autoscaler="`...)
		line = append(line, of.escaped...)
		line = append(line, '"')
		for i, label := range labels {
			line = appendLabel(line, f.labels[i], label)
		}
		line = append(line, '}')
	}
	t.pending = append(line, ' ')
	t.end(value)
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

// appendLabel appends a label after those before.
func appendLabel(line []byte, name, value string) []byte {
	line = append(line, ',')
	line = append(line, name...)
	line = append(line, `="`...)
	line = append(line, labelEscapes.Replace(validText(value))...)
	return append(line, '"')
}

// validText returns a valid label value without secrets. All labels of autoscalers pass
// through it.
func validText(value string) string { return redact.Text(strings.ToValidUTF8(value, "\uFFFD")) }
