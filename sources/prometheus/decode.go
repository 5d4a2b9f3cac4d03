package prometheus

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/common/model"

	"github.com/hpad/hpad/sources"
)

const (
	// maxAnswerBytes limits a response. It is enough for a million series.
	maxAnswerBytes = 256 << 20
	// maxTokenBytes limits one name, text or number in a response.
	maxTokenBytes = 1 << 20
	// maxAnnotations limits the warnings and, separately, the infos of a response.
	maxAnnotations = 10
)

// errNotPrometheus is the error for JSON that is not a response of the API.
var errNotPrometheus = errors.New("not from the Prometheus API")

// envelope contains the fields of all responses.
type envelope struct {
	Status    string      `json:"status"`
	ErrorType string      `json:"errorType"`
	Error     string      `json:"error"`
	Warnings  annotations `json:"warnings"`
	Infos     annotations `json:"infos"`
	// VictoriaMetrics sets isPartial, and FiloDB partial.
	IsPartial jsontext.Value `json:"isPartial"`
	Partial   jsontext.Value `json:"partial"`
}

type response struct {
	envelope
	Data struct {
		ResultType string `json:"resultType"`
		Result     result `json:"result"`
	} `json:"data"`
}

func decode(input *limitedReader, collector *sources.Collector, m expectedTime, decoder *jsontext.Decoder) (*response, error) {
	// Detecting duplicate names is expensive.
	decoder.Reset(input, jsontext.AllowDuplicateNames(true))
	input.consumed = decoder.InputOffset
	var r response
	r.Data.Result = result{resultType: &r.Data.ResultType, collector: collector, expectedTime: m}
	switch err := json.UnmarshalDecode(decoder, &r); {
	case r.Data.Result.err != nil:
		return nil, r.Data.Result.err
	case err != nil:
		return nil, err
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if r.Status == "error" {
		return nil, fmt.Errorf("server returned %s", sources.Shorten(r.ErrorType+": "+r.Error, maxShownAnswer))
	}
	if err := checkType(r.Data.ResultType); err != nil {
		return nil, err
	}
	if shape := r.Data.Result.shape; r.Status != "success" || shape == "" || shape != r.Data.ResultType {
		return nil, errNotPrometheus
	}
	return &r, nil
}

// checkType returns an error for a result type that does not contain numbers at one instant.
func checkType(resultType string) error {
	switch resultType {
	case "matrix":
		return &sources.QueryError{Err: errors.New("result is a range (matrix), want one value for each series; " +
			"remove the brackets, or put a function such as rate() or max_over_time() around them")}
	case "string":
		return &sources.QueryError{Err: errors.New("result is a string, want a vector or a scalar")}
	}
	return nil
}

// annotations contains the first warnings or infos of a response. A later warning about a
// partial result replaces the last one.
type annotations []string

// UnmarshalJSONFrom reads an array and skips elements that are not strings.
func (r *annotations) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '[' {
		return decoder.SkipValue()
	}
	return eachElement(decoder, func() error {
		if decoder.PeekKind() != '"' {
			return decoder.SkipValue()
		}
		token, err := decoder.ReadToken()
		if err == nil {
			r.add(token.String())
		}
		return err
	})
}

func (r *annotations) add(text string) {
	text = sources.Shorten(text, maxShownAnswer)
	switch {
	case len(*r) < maxAnnotations:
		*r = append(*r, text)
	case sources.MarksPartial(text) && !slices.ContainsFunc(*r, sources.MarksPartial):
		(*r)[maxAnnotations-1] = text
	}
}

func eachElement(decoder *jsontext.Decoder, read func() error) error {
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != ']' {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

// result passes each series to the collector while it is decoded.
type result struct {
	// resultType is set if the type precedes the result in the response.
	resultType   *string
	collector    *sources.Collector
	expectedTime expectedTime
	// shape is "vector" or "scalar" after a result was read.
	shape string
	// err is the error of a series.
	err error
}

// UnmarshalJSONFrom reads a vector or a scalar.
func (r *result) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if r.err = checkType(*r.resultType); r.err == nil {
		r.err = r.read(decoder)
	}
	return r.err
}

func (r *result) read(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '[' || r.shape != "" {
		return errNotPrometheus
	}
	if *r.resultType == "scalar" {
		return r.readScalar(decoder)
	}
	r.shape = "vector"
	next := series{Metric: labels{collector: r.collector}}
	return eachElement(decoder, func() error {
		if kind := decoder.PeekKind(); kind != '{' && kind != 'n' {
			return errNotPrometheus
		}
		next.Value, next.Histogram = next.Value[:0], next.Histogram[:0]
		switch err := json.UnmarshalDecode(decoder, &next); {
		case next.Metric.err != nil:
			return next.Metric.err
		case err != nil:
			return err
		case len(next.Histogram) > 0 && next.Histogram.Kind() != 'n':
			return &sources.QueryError{Err: fmt.Errorf("series %s is a native histogram, want a number; use histogram_quantile(), histogram_sum() or histogram_count()",
				sources.Shorten(metric(r.collector.Named()).String(), maxShownQuery))}
		}
		return r.add(next.Value)
	})
}

func (r *result) readScalar(decoder *jsontext.Decoder) error {
	r.shape = "scalar"
	value, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	return r.add(value)
}

// add adds a series from a pair such as [1767225600, "1"].
func (r *result) add(pair jsontext.Value) error {
	stated, text, ok := strings.Cut(strings.Trim(string(pair), "[] \t\r\n"), ",")
	if !ok {
		return errors.New("result contains a series or a scalar without a value")
	}
	text = strings.TrimSpace(text)
	seconds, err := strconv.ParseFloat(strings.TrimSpace(stated), 64)
	if err != nil || math.Abs(seconds) > maxSeconds || len(text) < 2 || text[0] != '"' {
		return errNotPrometheus
	}
	value, err := strconv.ParseFloat(text[1:len(text)-1], 64)
	if err != nil {
		return errNotPrometheus
	}
	at := time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	if err := r.expectedTime.check(at); err != nil {
		return err
	}
	return r.collector.Add(value, at)
}

// maxSeconds is the maximum timestamp in seconds.
const maxSeconds = 1e12

type series struct {
	Metric    labels         `json:"metric"`
	Value     jsontext.Value `json:"value"`
	Histogram jsontext.Value `json:"histogram"`
}

// labels passes the labels of a series to the collector.
type labels struct {
	collector  *sources.Collector
	name, text []byte
	err        error
}

// UnmarshalJSONFrom reads an object of strings, or null.
func (l *labels) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() == 'n' {
		return decoder.SkipValue()
	}
	l.err = l.read(decoder)
	return l.err
}

func (l *labels) read(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '{' {
		return errNotPrometheus
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		l.name, _ = jsontext.AppendUnquote(l.name[:0], name) // valid, because the decoder has read it
		value, err := decoder.ReadValue()
		if err != nil {
			return err
		}
		if value.Kind() != '"' {
			return errNotPrometheus
		}
		l.text, _ = jsontext.AppendUnquote(l.text[:0], value)
		if err := l.collector.Label(l.name, l.text); err != nil {
			return err
		}
	}
	_, err := decoder.ReadToken()
	return err
}

func metric(labels map[string]string) model.Metric {
	m := make(model.Metric, len(labels))
	for name, value := range labels {
		m[model.LabelName(name)] = model.LabelValue(value)
	}
	return m
}

// expectedTime is the time that a result must have, compared in milliseconds. The zero value
// accepts any time.
type expectedTime struct {
	at        time.Time
	tolerance time.Duration
}

func (m expectedTime) check(at time.Time) error {
	if at.UnixMilli() == 0 {
		return errors.New("result contains no time")
	}
	if m.at.IsZero() {
		return nil
	}
	late := at.Sub(m.at.Truncate(time.Millisecond))
	if late.Abs() <= m.tolerance {
		return nil
	}
	what := "after"
	if late < 0 {
		what = "before"
	}
	return fmt.Errorf("result has the time %s, %s %s the requested instant; check for a cache in front of the server, or set time_tolerance",
		at.Format(time.RFC3339Nano), late.Abs(), what)
}

// limitedReader limits the size of a response and of its undecoded part.
type limitedReader struct {
	next        io.Reader
	read, limit int64
	// consumed returns the offset up to which the decoder has read.
	consumed func() int64
	err      error
}

// Read reads from the response.
func (r *limitedReader) Read(p []byte) (n int, err error) {
	switch {
	case r.err != nil:
		return 0, r.err
	case r.read-r.consumed() > maxTokenBytes:
		r.err = fmt.Errorf("response contains a string of more than %d MiB", maxTokenBytes>>20)
	case r.read > r.limit:
		r.err = fmt.Errorf("response is larger than %d MiB; make the query more selective or aggregate more", r.limit>>20)
	default:
		n, r.err = r.next.Read(p)
		r.read += int64(n)
	}
	return n, r.err
}
