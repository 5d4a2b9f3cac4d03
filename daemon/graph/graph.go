// Package graph stores the results of passes, for the graphs of autoscalers and for simulations. A
// point contains the inputs and the result of one pass: counts, bounds, and the reading and proposal of
// each metric.
//
// Points are written to a bbolt file, graph.db, once a minute. If hpad is killed, at most the
// points of the last minute are lost. Decisions do not depend on the file, and an empty file
// replaces a damaged one. Each bucket covers one hour or 6 hours, so that old points are deleted with
// their bucket after 7 days:
//
//	hours/HOUR       NUMBER NAME -> the points of one minute; NUMBER counts the flushes
//	quarters/QUARTER NAME        -> the points of six hours
//
// The file contains a point for each pass. Two limits keep it small. While the autoscalers have more
// than maxPasses passes in a minute, points of an autoscaler are at least [minStep] apart. If the hours
// of a quarter have more than maxQuarter bytes, the quarter contains one point per [thin].
//
// A block of points is JSON, compressed with zstd, which adds a checksum.
package graph

import (
	"math"
	"slices"
	"strconv"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/simulate"
)

// minStep is the minimum time between two points of a graph. thin is the minimum time between points
// older than full. Points are stored for retention.
const (
	minStep   = api.GraphStep
	thin      = api.GraphThin
	full      = api.GraphFull
	retention = api.GraphRetention
)

// Unknown stands for an unknown count.
const Unknown = simulate.Unknown

// milli is the number of milli-units in a unit, and of milliseconds in a second.
const milli = 1000

// Subject is an autoscaler and the unique names of its metrics.
type Subject struct {
	Name    string
	Metrics []string
}

// Point is the data point of one pass.
type Point struct {
	simulate.Tick
	Min, Max int32
	// Target is a hash of the target and of the kind of its fleet.
	Target uint32
	// Metrics contains the result of each metric of the subject.
	Metrics []Metric
}

// Metric is the result of a metric in a pass. The reading is in the point's Tick, except for the value
// of a formula.
type Metric struct {
	// Proposal is Unknown if the metric has no proposal.
	Proposal int32
	Unit     Unit
	// Formula is the value of a formula in milli-units.
	Formula int64
}

// Unit determines the value of a metric in graphs.
type Unit int64

// The units.
const (
	// NoValue means that the metric has no value.
	NoValue Unit = iota
	// Whole is the value itself.
	Whole
	// PerInstance is the value divided by the observed count.
	PerInstance
	// PerSample is the average of the samples.
	PerSample
	// Percent is the percentage of the requests.
	Percent
)

// graphOf converts sorted rows to columns of equal length, oldest first.
func graphOf(rows []row) api.Graph {
	n := len(rows)
	column := func() api.Column { return slices.Repeat(api.Column{math.NaN()}, n) }
	g := api.Graph{Time: make([]int64, n), Replicas: column(), Desired: column(), Min: column(), Max: column()}
	known := map[string]int{}
	for i := range rows {
		r := &rows[i]
		g.Time[i] = r.time / milli
		g.Replicas[i], g.Desired[i] = counted(r.values[replicas]), counted(r.values[desired])
		g.Min[i], g.Max[i] = counted(r.values[minimum]), counted(r.values[maximum])
		for j, name := range r.metrics {
			at, ok := known[name]
			if !ok {
				at = len(g.Metrics)
				known[name] = at
				g.Metrics = append(g.Metrics, api.GraphMetric{Name: name, Proposals: column(), Values: column()})
			}
			m := &g.Metrics[at]
			m.Proposals[i], m.Values[i] = counted(r.metric(j)[proposal]), r.value(j)
		}
	}
	return g
}

// counted returns NaN for Unknown.
func counted(count int64) float64 {
	if count == int64(Unknown) {
		return math.NaN()
	}
	return float64(count)
}

// metric returns the columns of a metric.
func (r *row) metric(i int) []int64 { return r.values[passColumns+metricColumns*i:][:metricColumns] }

// value returns the value of a metric in its unit, rounded to five digits, or NaN.
func (r *row) value(i int) float64 {
	m := r.metric(i)
	divisor := int64(0)
	switch Unit(m[unit]) {
	case Whole:
		divisor = 1
	case PerInstance:
		divisor = r.values[observed]
	case PerSample:
		divisor = m[readyGroup] + m[extraneousGroup]
	case Percent:
		if m[readyRequest] != 0 {
			return math.Trunc(float64(m[amount]) / float64(m[readyRequest]) * 100)
		}
	}
	if divisor <= 0 {
		return math.NaN()
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(float64(m[amount])/float64(divisor)/milli, 'g', 5, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return short
}
