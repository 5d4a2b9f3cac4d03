package metrics

import (
	"io"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields of io.prometheus.client's messages.
const (
	familyName, familyHelp, familyType, familyMetric protowire.Number = 1, 2, 3, 4

	metricLabel, metricGauge, metricCounter protowire.Number = 1, 2, 3

	labelName, labelValue protowire.Number = 1, 2

	gaugeValue protowire.Number = 1 // and the counter's
)

// delimited writes families as protocol buffers, each after its length, for which it
// keeps the series of one.
type delimited struct {
	to io.Writer
	// begun is the family that the series are of; nil before the first.
	begun *family
	// series are in parts, of which those after used are memory, and take size bytes.
	series         [][]byte
	used, size     int
	metric, nested []byte // memory for one
	err            error
}

// partSize is from how many bytes on a part has no more series: one of all of them
// would be copied again and again as it grows.
const partSize = 256 << 10

func (d *delimited) add(f *family, of *shown, value float64, labels []string) {
	if d.begun != f {
		d.err = d.flush()
		d.begun = f
	}
	d.metric = d.metric[:0]
	if of != nil {
		d.label("autoscaler", of.name)
	}
	for i, label := range labels {
		d.label(f.labels[i], validText(label))
	}
	d.nested = protowire.AppendTag(d.nested[:0], gaugeValue, protowire.Fixed64Type)
	d.nested = protowire.AppendFixed64(d.nested, math.Float64bits(value))
	kind := metricGauge
	if f.kind == prometheus.CounterValue {
		kind = metricCounter
	}
	d.metric = appendMessage(d.metric, kind, d.nested)
	if d.used == 0 || len(d.series[d.used-1]) >= partSize {
		d.nextPart()
	}
	part := &d.series[d.used-1]
	before := len(*part)
	*part = appendMessage(*part, familyMetric, d.metric)
	d.size += len(*part) - before
}

func (d *delimited) nextPart() {
	if d.used == len(d.series) {
		d.series = append(d.series, make([]byte, 0, partSize+partSize/8))
	}
	d.series[d.used] = d.series[d.used][:0]
	d.used++
}

func (d *delimited) label(name, value string) {
	d.nested = appendText(appendText(d.nested[:0], labelName, name), labelValue, value)
	d.metric = appendMessage(d.metric, metricLabel, d.nested)
}

// flush writes the family that was begun.
func (d *delimited) flush() error {
	if d.begun == nil || d.err != nil {
		return d.err
	}
	head := appendText(appendText(nil, familyName, d.begun.name), familyHelp, d.begun.help)
	head = protowire.AppendTag(head, familyType, protowire.VarintType)
	kind := dto.MetricType_GAUGE
	if d.begun.kind == prometheus.CounterValue {
		kind = dto.MetricType_COUNTER
	}
	head = protowire.AppendVarint(head, uint64(kind))
	length := protowire.AppendVarint(nil, uint64(len(head)+d.size))
	for _, part := range slices.Concat([][]byte{length, head}, d.series[:d.used]) {
		if d.err == nil {
			_, d.err = d.to.Write(part)
		}
	}
	d.used, d.size = 0, 0
	return d.err
}

func appendText(message []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(message, field, protowire.BytesType), text)
}

func appendMessage(message []byte, field protowire.Number, nested []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, field, protowire.BytesType), nested)
}
