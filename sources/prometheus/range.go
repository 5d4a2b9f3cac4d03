package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hpad/hpad/sources"
)

const (
	rangePath = "/api/v1/query_range"
	// instantsPerRequest is below the limit of servers, which is 11,000.
	instantsPerRequest = 1000
	// maxRangeBytes limits a response.
	maxRangeBytes = 32 << 20
)

// QueryRange implements [sources.Ranger]. Like a Diagnosis, its requests are not counted as concurrent
// queries, so that they do not delay passes.
func (s *Source) QueryRange(ctx context.Context, query sources.Query, from time.Time, step time.Duration, n int, visit func(at time.Time, v *sources.Vector)) error {
	for ; n > 0; n -= instantsPerRequest {
		vectors, err := s.queryRange(ctx, query, from, step, min(n, instantsPerRequest))
		if err != nil {
			return fmt.Errorf("source %q: query %q from %s at %q: %w",
				s.name, sources.Shorten(query.Text, maxShownQuery), from.UTC().Format(time.RFC3339), s.address, err)
		}
		for i := range vectors {
			visit(from, &vectors[i])
			from = from.Add(step)
		}
	}
	return nil
}

// matrix is the response to a range query.
type matrix struct {
	envelope
	Data struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric     map[string]string   `json:"metric"`
			Values     [][2]jsontext.Value `json:"values"`
			Histograms jsontext.Value      `json:"histograms"`
		} `json:"result"`
	} `json:"data"`
}

// queryRange returns the results at n instants.
func (s *Source) queryRange(ctx context.Context, query sources.Query, from time.Time, step time.Duration, n int) (vectors []sources.Vector, err error) {
	form := s.form(query)
	form.Set("start", formatTime(from))
	form.Set("end", formatTime(from.Add(time.Duration(n-1)*step)))
	form.Set("step", strconv.FormatFloat(step.Seconds(), 'f', -1, 64))
	err = s.request(ctx, func(ctx context.Context) error {
		answer, err := s.send(ctx, rangePath, form)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		b, _ := spare.Get().(*buffers)
		defer b.release()
		start, err := b.open(answer)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(io.LimitReader(b.ahead, maxRangeBytes+1))
		if err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
		if len(text) > maxRangeBytes {
			return fmt.Errorf("response is larger than %d MiB; make the query more selective or aggregate more", maxRangeBytes>>20)
		}
		var m matrix
		if err := json.Unmarshal(text, &m, jsontext.AllowDuplicateNames(true)); err != nil || m.Status != "success" || m.Data.ResultType != "matrix" {
			return fmt.Errorf("response is truncated or not from the Prometheus API: %s", errorText(start))
		}
		warnings, infos := m.remarks(answer.Header)
		vectors = make([]sources.Vector, n)
		for i := range vectors {
			vectors[i].Warnings, vectors[i].Infos = warnings, infos
			s.judgeWarnings(&vectors[i])
		}
		return m.distribute(vectors, from, step)
	})
	return vectors, err
}

// distribute adds the values of all series to the results at their instants.
func (m *matrix) distribute(vectors []sources.Vector, from time.Time, step time.Duration) error {
	for i := range m.Data.Result {
		series := &m.Data.Result[i]
		if len(series.Histograms) > 0 && series.Histograms.Kind() != 'n' {
			return &sources.QueryError{Err: errors.New("result contains a native histogram, want numbers; use histogram_quantile(), histogram_sum() or histogram_count()")}
		}
		labels := sources.LabelsOf(series.Metric)
		for _, pair := range series.Values {
			seconds, err := strconv.ParseFloat(string(pair[0]), 64)
			if err != nil || pair[1].Kind() != '"' || len(pair[1]) < 2 {
				return errNotPrometheus
			}
			value, err := strconv.ParseFloat(string(pair[1][1:len(pair[1])-1]), 64)
			if err != nil {
				return errNotPrometheus
			}
			at := time.UnixMilli(int64(seconds*1000 + 0.5)).UTC()
			index := at.Sub(from.Truncate(time.Millisecond))
			if index%step != 0 || index < 0 || int(index/step) >= len(vectors) {
				return fmt.Errorf("result has the time %s, which was not requested; check for a cache in front of the server", at.Format(time.RFC3339Nano))
			}
			v := &vectors[index/step]
			v.Series = append(v.Series, sources.Series{Labels: labels, Value: value, At: at})
		}
	}
	return nil
}
