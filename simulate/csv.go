package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
)

const (
	// replicasMetric is the name of the counts in a CSV file.
	replicasMetric = "replicas"
	// maxCSVRows limits the memory for a file.
	maxCSVRows = 5_000_000
)

// csvValues contains the values of a file by metric.
type csvValues map[string]map[time.Time]float64

// ReadCSV reads a recording from rows of time, metric and value, in any order. The first row can be a
// header. Times are RFC 3339, "2006-01-02 15:04:05" in UTC, or Unix seconds. The values have the
// meaning that they have in a policy: the total for an Object or External metric with an average
// value, percent for a utilization, and otherwise the average of the instances. For averages, the
// metric "replicas" contains the number of instances. A missing value is a missing reading.
func ReadCSV(from io.Reader, name string, p *Policy) (*Recording, error) {
	values, err := readValues(from)
	if err != nil {
		return nil, err
	}
	recording := &Recording{Name: name, Origin: FromCSV, CountsUnknown: true}
	var metrics []*policy.MetricSpec
	for i, metric := range MetricNames(p.Spec.Metrics) {
		spec := &p.Spec.Metrics[i]
		if spec.Formula != "" {
			continue
		}
		if values[metric] == nil {
			return nil, fmt.Errorf("the file has no metric %q; it has %s", metric, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
		if !isWhole(spec) && values[replicasMetric] == nil {
			return nil, fmt.Errorf("metric %q is an average of the instances: %w", metric, errCountsUnknown)
		}
		recording.Metrics = append(recording.Metrics, metric)
		metrics = append(metrics, spec)
	}
	times := map[time.Time]bool{}
	for _, metric := range append(slices.Clone(recording.Metrics), replicasMetric) {
		for at := range values[metric] {
			times[at] = true
		}
	}
	replicas := Unknown
	for _, at := range slices.SortedFunc(maps.Keys(times), time.Time.Compare) {
		if count, ok := values[replicasMetric][at]; ok && count >= 0 && count <= math.MaxInt32 {
			replicas = int32(count)
		}
		tick := Tick{Time: at, Observed: replicas, Ready: replicas}
		for i, metric := range recording.Metrics {
			tick.Readings = append(tick.Readings, csvReading(metrics[i], values[metric], at, replicas))
		}
		recording.Ticks = append(recording.Ticks, tick)
	}
	recording.Step = stepOf(recording.Ticks)
	return recording, nil
}

func csvReading(metric *policy.MetricSpec, values map[time.Time]float64, at time.Time, replicas int32) Reading {
	value, ok := values[at]
	milli := math.Round(value * 1000)
	if !ok || math.IsNaN(value) || math.Abs(milli) >= math.MaxInt64 {
		return Reading{Missing: true}
	}
	if isWhole(metric) {
		return Reading{Milli: int64(milli)}
	}
	if replicas <= 0 || milli < 0 || milli*float64(replicas) >= math.MaxInt64 {
		return Reading{Missing: true}
	}
	reading := Reading{Milli: int64(milli) * int64(replicas), Groups: &policy.Groups{Ready: int(replicas)}}
	if _, utilization := targetOf(metric); utilization {
		reading.Requests = &policy.Requests{Ready: full * int64(replicas)}
	}
	return reading
}

// readValues reads all rows.
func readValues(from io.Reader) (csvValues, error) {
	reader := csv.NewReader(from)
	reader.FieldsPerRecord, reader.ReuseRecord, reader.TrimLeadingSpace, reader.Comment = 3, true, true, '#'
	values := csvValues{}
	for row := 0; ; row++ {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("each row must have a time, a metric and a value: %w", err)
		}
		if row == maxCSVRows {
			return nil, fmt.Errorf("the file has more than %d rows", maxCSVRows)
		}
		line, _ := reader.FieldPos(0)
		at, err := parseTime(fields[0])
		if err != nil && row == 0 {
			continue // the header
		}
		value := math.NaN()
		if err == nil && fields[2] != "" {
			if value, err = strconv.ParseFloat(fields[2], 64); err != nil {
				err = fmt.Errorf("%q is not a number", fields[2])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		metric := fields[1]
		if values[metric] == nil {
			metric = strings.Clone(metric)
			values[metric] = map[time.Time]float64{}
		}
		if _, twice := values[metric][at]; twice {
			return nil, fmt.Errorf("line %d: metric %q has two values at %s", line, metric, fields[0])
		}
		values[metric][at] = value
	}
	if len(values) == 0 {
		return nil, errors.New("the file has no values: each row must have a time, a metric and a value")
	}
	return values, nil
}

func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < 1e11 {
		return time.UnixMilli(int64(seconds * 1000)).UTC(), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: use RFC 3339, \"2006-01-02 15:04:05\" in UTC, or Unix seconds", text)
}
