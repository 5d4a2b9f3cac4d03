package graph

import (
	"math"
	"time"
)

// Step is the least time between two points of an autoscaler, Thin that of points which
// are older than Full. Points are kept for Retention.
const (
	Step      = 15 * time.Second
	Thin      = 5 * time.Minute
	Full      = 6 * time.Hour
	Retention = 7 * 24 * time.Hour
)

// Unknown is a count that is not known.
const Unknown int32 = -1

// Subject is an autoscaler that is drawn: its name, and those of its metrics, none twice.
type Subject struct {
	Name    string
	Metrics []string
}

// Point is what a drawing shows of one pass.
type Point struct {
	Time time.Time
	// Replicas is the count as read, Desired the one that the pass wants; Unknown where
	// the target could not be read.
	Replicas, Desired int32
	Min, Max          int32
	// Values has two numbers for each metric of the subject: what it proposes, and what it measures; NaN
	// for what it does not.
	Values []float64
}

// Series is points in columns of the same length, oldest first; NaN is what is not known.
type Series struct {
	Time                        []time.Time
	Replicas, Desired, Min, Max []float64
	Metrics                     []Metric
}

// Metric is the columns of one metric.
type Metric struct {
	Name string
	// Proposals are the counts that it proposed, Values what it measured: in percent for a
	// utilization, else in its own unit.
	Proposals, Values []float64
}

// series returns rows in order as columns.
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
