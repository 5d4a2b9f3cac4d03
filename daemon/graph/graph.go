// Package graph stores the data points for the graphs of autoscalers. A point contains the count,
// the desired count, the bounds, and the value and proposal of each metric in one pass.
//
// Points are written to a bbolt file, graph.db, once a minute. If hpad is killed, at most the
// points of the last minute are lost. Decisions do not depend on the file, and an empty file
// replaces a damaged one. Points are at least [Step] apart. The file contains all points of the
// last 6 hours, and one point per [thin] for the last 7 days. Each bucket covers one hour or 6
// hours, so that old points are deleted with their bucket:
//
//	hours/HOUR       NUMBER NAME -> the points of one minute; NUMBER counts the flushes
//	quarters/QUARTER NAME        -> the points of six hours, one per Thin
//
// A block of points is JSON, compressed with zstd, which adds a checksum. Measured values are
// rounded to five digits.
package graph

import (
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
)

// Step is the minimum time between two points of an autoscaler. Thin is the minimum time between
// points older than Full. Points are stored for retention.
const (
	Step      = api.GraphStep
	thin      = api.GraphThin
	full      = api.GraphFull
	retention = api.GraphRetention
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

// columns converts sorted rows to columns of equal length, oldest first.
func columns(rows []row) api.Graph {
	n := len(rows)
	column := func() api.Column { return slices.Repeat(api.Column{math.NaN()}, n) }
	g := api.Graph{Time: make([]int64, n), Replicas: column(), Desired: column(), Min: column(), Max: column()}
	known := map[string]int{}
	for i := range rows {
		r := &rows[i]
		g.Time[i] = r.time
		g.Replicas[i], g.Desired[i], g.Min[i], g.Max[i] = r.values[0], r.values[1], r.values[2], r.values[3]
		for j, name := range r.metrics {
			at, ok := known[name]
			if !ok {
				at = len(g.Metrics)
				known[name] = at
				g.Metrics = append(g.Metrics, api.GraphMetric{Name: name, Proposals: column(), Values: column()})
			}
			m := &g.Metrics[at]
			m.Proposals[i], m.Values[i] = r.values[counts+2*j], r.values[counts+2*j+1]
		}
	}
	return g
}
