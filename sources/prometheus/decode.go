package prometheus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/sources"
)

const (
	// maxAnswerBytes bounds a response as it is read, after decompression: enough for
	// a million series.
	maxAnswerBytes = 256 << 20
	// maxTokenBytes bounds one name, text or number in it.
	maxTokenBytes = 1 << 20
	// maxRemarks bounds the warnings, and the infos, that are kept of it.
	maxRemarks = 10
)

// The types of results that the API knows.
const (
	vectorResult = "vector"
	scalarResult = "scalar"
	matrixResult = "matrix"
	stringResult = "string"
)

// errForeign is the error of JSON that is not the API's, errTrailing of something
// after its end.
var (
	errForeign  = errors.New("not what the Prometheus API answers")
	errTrailing = errors.New("something after the end")
)

// decoder reads the response to a query as it comes in, and hands each series to a
// collector at once.
type decoder struct {
	json      *jsontext.Decoder
	input     *boundedReader
	collector *sources.Collector
	moment    moment

	status, errorType, message string
	resultType                 string
	warnings, infos            []string
	// shape is what kind of result was read; "" while none was.
	shape string
	// series counts the series of the result, missing is the first of them without a
	// value; 0 while each has one.
	series, missing int
	// scalarMissing means that the result is a scalar without a value.
	scalarMissing bool
	// name and text are where names and label values are unquoted.
	name, text []byte
}

func newDecoder(json *jsontext.Decoder, body io.Reader, limit int64, collector *sources.Collector, m moment) *decoder {
	d := &decoder{json: json, input: &boundedReader{next: body, limit: limit}, collector: collector, moment: m}
	// That a name comes twice is of no consequence, and costs a lot to notice.
	d.json.Reset(d.input, jsontext.AllowDuplicateNames(true))
	d.input.consumed = d.json.InputOffset
	return d
}

// decode reads the response to its end.
func (d *decoder) decode() (sources.Vector, error) {
	if err := d.object(d.member); err != nil {
		return sources.Vector{}, err
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return sources.Vector{}, errTrailing
	}
	switch {
	case d.status == "error":
		return sources.Vector{}, fmt.Errorf("server answered %s", shorten(d.errorType+": "+d.message, maxShownAnswer))
	case d.status != "success" || d.shape == "":
		return sources.Vector{}, errForeign
	}
	if err := d.checkType(); err != nil {
		return sources.Vector{}, err
	}
	switch {
	case d.resultType != d.shape:
		return sources.Vector{}, errForeign
	case d.scalarMissing:
		return sources.Vector{}, errors.New("answer is a scalar without a value")
	case d.missing > 0:
		return sources.Vector{}, fmt.Errorf("answer has a series without a value (number %d of %d)", d.missing, d.series)
	}
	vector := d.collector.Vector(d.warnings)
	vector.Infos = d.infos
	return vector, nil
}

// checkType returns an error for a type of result that states no numbers at one
// instant.
func (d *decoder) checkType() error {
	switch d.resultType {
	case matrixResult:
		return &sources.QueryError{Err: errors.New("result is a range (matrix), want one value for each series; " +
			"take the brackets off, or put a function such as rate() or max_over_time() around them")}
	case stringResult:
		return &sources.QueryError{Err: errors.New("result is a string, want a vector or a scalar")}
	}
	return nil
}

// member reads a member of the outermost object.
func (d *decoder) member(name []byte) (err error) {
	switch string(name) {
	case "status":
		d.status, err = d.string()
	case "errorType":
		d.errorType, err = d.string()
	case "error":
		d.message, err = d.string()
	case "warnings":
		err = d.array(func() error { return d.remark(d.warn) })
	case "infos":
		if d.json.PeekKind() != '[' {
			return d.json.SkipValue()
		}
		err = d.array(func() error {
			if d.json.PeekKind() != '"' {
				return d.json.SkipValue()
			}
			return d.remark(d.inform)
		})
	case "isPartial", "partial": // of VictoriaMetrics, and of FiloDB
		if d.json.PeekKind() == 't' {
			d.warn("the server marks the result as partial (" + string(name) + ")")
		}
		err = d.json.SkipValue()
	case "data":
		err = d.optional(func() error { return d.object(d.dataMember) })
	default:
		err = d.json.SkipValue()
	}
	return err
}

func (d *decoder) remark(add func(text string)) error {
	text, err := d.string()
	if err == nil {
		add(text)
	}
	return err
}

// warn adds a warning. One that marks the result as partial takes the place of another one
// that does not.
func (d *decoder) warn(text string) {
	text = shorten(text, maxShownAnswer)
	switch {
	case sources.IsInfo(text):
		d.inform(text)
	case len(d.warnings) < maxRemarks:
		d.warnings = append(d.warnings, text)
	case sources.MarksPartial(text) && !slices.ContainsFunc(d.warnings, sources.MarksPartial):
		d.warnings[maxRemarks-1] = text
	}
}

func (d *decoder) inform(text string) {
	if len(d.infos) < maxRemarks {
		d.infos = append(d.infos, shorten(text, maxShownAnswer))
	}
}

func (d *decoder) dataMember(name []byte) (err error) {
	switch {
	case string(name) == "resultType":
		if d.resultType, err = d.string(); err == nil {
			err = d.checkType()
		}
	case string(name) != "result":
		err = d.json.SkipValue()
	case d.shape != "":
		err = errForeign
	default:
		err = d.result()
	}
	return err
}

// result reads a vector or a scalar, which differ by their form: the type may come
// after them.
func (d *decoder) result() error {
	if d.json.PeekKind() == 'n' {
		return errForeign
	}
	if err := d.expect('['); err != nil {
		return err
	}
	switch kind := d.json.PeekKind(); {
	case d.resultType == scalarResult, d.resultType == "" && kind != '{' && kind != ']' && kind != 'n':
		d.shape = scalarResult
		value, at, ok, err := d.rest()
		switch {
		case err != nil:
			return err
		case !ok:
			d.scalarMissing = true
			return nil
		}
		return d.add(value, at)
	}
	d.shape = vectorResult
	for d.json.PeekKind() != ']' {
		d.series++
		if err := d.element(); err != nil {
			return err
		}
	}
	return d.expect(']')
}

// element reads one series of a vector.
func (d *decoder) element() error {
	var value float64
	var at time.Time
	var valued, histogram bool
	err := d.optional(func() error {
		return d.object(func(name []byte) (err error) {
			switch string(name) {
			case "metric":
				err = d.optional(func() error { return d.object(d.label) })
			case "value":
				err = d.optional(func() error {
					if err := d.expect('['); err != nil {
						return err
					}
					value, at, valued, err = d.rest()
					return err
				})
			case "histogram":
				histogram = d.json.PeekKind() != 'n'
				err = d.json.SkipValue()
			default:
				err = d.json.SkipValue()
			}
			return err
		})
	})
	switch {
	case err != nil:
		return err
	case histogram:
		return &sources.QueryError{Err: fmt.Errorf("series %s is a native histogram, want a number; use histogram_quantile(), histogram_sum() or histogram_count()",
			shorten(metric(d.collector.Named()).String(), maxShownQuery))}
	case !valued && d.missing == 0:
		d.missing = d.series
	}
	if d.missing > 0 {
		return nil // it is an error, and is read on to count the series
	}
	return d.add(value, at)
}

// metric returns labels as Prometheus writes a metric.
func metric(labels map[string]string) model.Metric {
	m := make(model.Metric, len(labels))
	for name, value := range labels {
		m[model.LabelName(name)] = model.LabelValue(value)
	}
	return m
}

// add hands a series to the collector.
func (d *decoder) add(value float64, at time.Time) error {
	if err := d.moment.check(at); err != nil {
		return err
	}
	return d.collector.Add(value, at)
}

// label reads a label of a metric.
func (d *decoder) label(name []byte) error {
	raw, err := d.json.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() != '"' {
		return errForeign
	}
	if d.text, err = unquote(d.text[:0], raw); err != nil {
		return err
	}
	return d.collector.Label(name, d.text)
}

// rest reads what follows the opening bracket of a time and a value. They are there
// or not: anything else, such as a value that is no number, is an error.
func (d *decoder) rest() (value float64, at time.Time, ok bool, err error) {
	if d.json.PeekKind() == ']' {
		return 0, at, false, d.expect(']')
	}
	raw, err := d.json.ReadValue()
	if err != nil {
		return 0, at, false, err
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.Abs(seconds) > maxSeconds {
		return 0, at, false, errForeign
	}
	at = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	if d.json.PeekKind() == ']' {
		return 0, at, false, d.expect(']')
	}
	if raw, err = d.json.ReadValue(); err != nil {
		return 0, at, false, err
	}
	if raw.Kind() != '"' {
		return 0, at, false, errForeign
	}
	if value, err = strconv.ParseFloat(string(raw[1:len(raw)-1]), 64); err != nil {
		return 0, at, false, errForeign
	}
	return value, at, true, d.expect(']')
}

// maxSeconds is a time that time.Time can hold in milliseconds.
const maxSeconds = 1e12

// object reads an object, each member by a function that reads its value. It may
// use the name until it reads an object itself.
func (d *decoder) object(member func(name []byte) error) error {
	if err := d.expect('{'); err != nil {
		return err
	}
	for d.json.PeekKind() != '}' {
		raw, err := d.json.ReadValue()
		if err != nil {
			return err
		}
		if d.name, err = unquote(d.name[:0], raw); err != nil {
			return err
		}
		if err := member(d.name); err != nil {
			return err
		}
	}
	return d.expect('}')
}

// array reads an array, each element by a function; null is one without elements.
func (d *decoder) array(element func() error) error {
	return d.optional(func() error {
		if err := d.expect('['); err != nil {
			return err
		}
		for d.json.PeekKind() != ']' {
			if err := element(); err != nil {
				return err
			}
		}
		return d.expect(']')
	})
}

// optional reads a value by a function, unless it is null.
func (d *decoder) optional(read func() error) error {
	if d.json.PeekKind() == 'n' {
		return d.json.SkipValue()
	}
	return read()
}

// string reads a text.
func (d *decoder) string() (string, error) {
	token, err := d.json.ReadToken()
	if err != nil {
		return "", err
	}
	if token.Kind() != '"' {
		return "", errForeign
	}
	return token.String(), nil
}

// expect reads a bracket.
func (d *decoder) expect(kind jsontext.Kind) error {
	token, err := d.json.ReadToken()
	if err == nil && token.Kind() != kind {
		return errForeign
	}
	return err
}

// unquote appends the text of a JSON string.
func unquote(dst []byte, raw jsontext.Value) ([]byte, error) {
	if bytes.IndexByte(raw, '\\') < 0 && len(raw) >= 2 {
		return append(dst, raw[1:len(raw)-1]...), nil
	}
	return jsontext.AppendUnquote(dst, raw)
}

// moment is the instant that a result has to state, in milliseconds; the zero value
// is any.
type moment struct {
	at        time.Time
	tolerance time.Duration
}

// check returns an error for a time that is not the moment.
func (m moment) check(at time.Time) error {
	if at.UnixMilli() == 0 {
		return errors.New("answer states no time")
	}
	if m.at.IsZero() {
		return nil
	}
	asked := m.at.Truncate(time.Millisecond)
	late := at.Sub(asked)
	if late.Abs() <= m.tolerance {
		return nil
	}
	what := "after"
	if late < 0 {
		what = "before"
	}
	return fmt.Errorf("result is of %s, %s %s the instant that was asked for; is there a cache before the server? time_tolerance is for servers that state other times",
		at.Format(time.RFC3339Nano), late.Abs(), what)
}

// boundedReader bounds a response, and what the decoder has to hold of it at once.
type boundedReader struct {
	next        io.Reader
	read, limit int64
	// consumed returns how much of what was read the decoder is through with.
	consumed func() int64
	// err is what ended the reading.
	err error
}

// Read reads on.
func (r *boundedReader) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.read-r.consumed() > maxTokenBytes:
		r.err = fmt.Errorf("answer has a text of more than %d MiB", maxTokenBytes>>20)
	case r.read > r.limit:
		r.err = fmt.Errorf("answer is larger than %d MiB; let the query select or aggregate more", r.limit>>20)
	default:
		n, r.err = r.next.Read(p)
		r.read += int64(n)
	}
	return n, r.err
}
