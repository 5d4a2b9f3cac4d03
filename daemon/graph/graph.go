// Package graph stores the data points for the graphs of autoscalers. A point contains the count, the
// desired count, the bounds, and the value and the proposal of each metric at one pass.
//
// Points are written to a bbolt file, graph.db, once a minute. A kill loses at most the points of the
// last minute. Decisions do not depend on the file, and a damaged file is replaced by an empty one.
// Points are at least [Step] apart. All points of the last 6 hours are stored, and one per [Thin] for
// the last 7 days. There is a bucket for each hour or for each 6 hours, so that old points are deleted
// with their bucket:
//
//	hours/HOUR       NUMBER NAME -> the points of one minute; NUMBER counts the flushes
//	quarters/QUARTER NAME        -> the points of six hours, one per Thin
//
// A block of points is JSON, compressed with zstd, which adds a checksum. Measured values are rounded
// to five digits.
package graph

import (
	"math"
	"time"
)

// Step is the minimum time between two points of an autoscaler. Thin is the minimum time between
// points older than Full. Points are stored for Retention.
const (
	Step      = 15 * time.Second
	Thin      = 5 * time.Minute
	Full      = 6 * time.Hour
	Retention = 7 * 24 * time.Hour
)

// Unknown stands for an unknown count.
const Unknown int32 = -1

// Subject is an autoscaler and the unique names of its metrics.
type Subject struct {
	Name    string
	Metrics []string
}

// Point is the data point of one pass.
type Point struct {
	Time time.Time
	// Replicas is the current count, and Desired is the result of the pass. They are Unknown if the
	// target could not be read.
	Replicas, Desired int32
	Min, Max          int32
	// Values contains the proposal and the value of each metric of the subject. NaN means unknown.
	Values []float64
}

// Series contains points as columns of equal length, oldest first. NaN means unknown.
type Series struct {
	Time                        []time.Time
	Replicas, Desired, Min, Max []float64
	Metrics                     []Metric
}

// Metric contains the columns of one metric.
type Metric struct {
	Name string
	// Proposals contains counts. Values is in percent for a utilization, otherwise in the metric's
	// unit.
	Proposals, Values []float64
}

// series converts sorted rows to columns.
func series(rows []row) Series {
	n := len(rows)
	column := func() []float64 {
		c := make([]float64, n)
		for i := range c {
			c[i] = math.NaN()
		}
		return c
	}
	s := Series{Time: make([]time.Time, n), Replicas: column(), Desired: column(), Min: column(), Max: column()}
	known := map[string]int{}
	for i := range rows {
		r := &rows[i]
		s.Time[i] = time.Unix(r.time, 0).UTC()
		s.Replicas[i], s.Desired[i], s.Min[i], s.Max[i] = r.values[0], r.values[1], r.values[2], r.values[3]
		for j, name := range r.metrics {
			at, ok := known[name]
			if !ok {
				at = len(s.Metrics)
				known[name] = at
				s.Metrics = append(s.Metrics, Metric{Name: name, Proposals: column(), Values: column()})
			}
			m := &s.Metrics[at]
			m.Proposals[i], m.Values[i] = r.values[counts+2*j], r.values[counts+2*j+1]
		}
	}
	return s
}
