package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Graph contains the data of an autoscaler's graph. All columns have the same length and start
// with the oldest value.
type Graph struct {
	// Time contains the instant of each point, in seconds since 1970.
	Time []int64 `json:"time"`
	// Replicas contains the observed counts. Desired contains the counts that the passes
	// computed.
	Replicas Column `json:"replicas"`
	Desired  Column `json:"desired_replicas"`
	Min      Column `json:"min_replicas"`
	Max      Column `json:"max_replicas"`
	// Metrics lists all metrics of the autoscaler in the period, in no particular order.
	Metrics []GraphMetric `json:"metrics"`
	// Holes lists the periods without points, oldest first.
	Holes []GraphHole `json:"holes,omitempty"`
}

// GraphHole is a period without points. Its times are in seconds since 1970.
type GraphHole struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// GraphMetric contains the columns of one metric.
type GraphMetric struct {
	Name string `json:"name"`
	// Proposals contains the counts that the metric proposed. Values contains the readings of the
	// metric, in percent for a utilization, and otherwise in the metric's unit.
	Proposals Column `json:"proposals"`
	Values    Column `json:"values"`
}

// Column contains a number for each point. NaN means that the value is unknown; it is null in JSON.
type Column []float64

// MarshalJSON encodes an array of numbers and nulls.
func (c Column) MarshalJSON() ([]byte, error) {
	text := append(make([]byte, 0, 2+4*len(c)), '[')
	for i, v := range c {
		if i > 0 {
			text = append(text, ',')
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			text = append(text, "null"...)
			continue
		}
		text = strconv.AppendFloat(text, v, 'g', -1, 64)
	}
	return append(text, ']'), nil
}

// UnmarshalJSON decodes an array of numbers and nulls.
func (c *Column) UnmarshalJSON(text []byte) error {
	var numbers []*float64
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&numbers); err != nil {
		return err
	}
	*c = make(Column, len(numbers))
	for i, v := range numbers {
		if (*c)[i] = math.NaN(); v != nil {
			(*c)[i] = *v
		}
	}
	return nil
}

// MergeGraphs returns a graph with the points of all graphs, oldest first. If two graphs have points
// with the same time, it uses the point of the first graph.
func MergeGraphs(all []Graph) Graph {
	if len(all) == 1 {
		return all[0]
	}
	type point struct{ graph, row int }
	var points []point
	for g := range all {
		for row := range all[g].Time {
			points = append(points, point{g, row})
		}
	}
	at := func(p point) int64 { return all[p.graph].Time[p.row] }
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(at(a), at(b)) })
	points = slices.CompactFunc(points, func(a, b point) bool { return at(a) == at(b) })
	merged := Graph{Time: make([]int64, len(points))}
	column := func() Column { return slices.Repeat(Column{math.NaN()}, len(points)) }
	merged.Replicas, merged.Desired, merged.Min, merged.Max = column(), column(), column(), column()
	metrics := map[string]int{}
	for i, p := range points {
		from := &all[p.graph]
		merged.Time[i] = at(p)
		merged.Replicas[i], merged.Desired[i] = from.Replicas[p.row], from.Desired[p.row]
		merged.Min[i], merged.Max[i] = from.Min[p.row], from.Max[p.row]
		for _, metric := range from.Metrics {
			m, ok := metrics[metric.Name]
			if !ok {
				m = len(merged.Metrics)
				metrics[metric.Name] = m
				merged.Metrics = append(merged.Metrics, GraphMetric{Name: metric.Name, Proposals: column(), Values: column()})
			}
			merged.Metrics[m].Proposals[i], merged.Metrics[m].Values[i] = metric.Proposals[p.row], metric.Values[p.row]
		}
	}
	return merged
}

const (
	// GraphStep is the minimum time between two points of an autoscaler.
	GraphStep = 15 * time.Second
	// GraphThin is the minimum time between points older than GraphFull.
	GraphThin = 5 * time.Minute
	// GraphFull is the age from which points are thinned.
	GraphFull = 6 * time.Hour
	// GraphRetention is the age at which points are deleted.
	GraphRetention = 7 * 24 * time.Hour
	// holeSteps and holeMargin determine the longest time between two points that is not a hole.
	holeSteps  = 3
	holeMargin = 30 * time.Second
)

// FindHoles sets Holes for the graph of an autoscaler from from until until. If the time of the
// autoscaler's creation is unknown, the graph has no hole before its first point. FindHoles returns a
// warning about the holes, or "" if there are none.
func (g *Graph) FindHoles(of *Autoscaler, from, until, now time.Time) (warning string) {
	g.Holes = nil
	if until.After(now) {
		until = now
	}
	last := slices.MaxFunc([]time.Time{from, of.Created, now.Add(-GraphRetention)}, time.Time.Compare)
	if of.Created.IsZero() {
		last = until
	}
	longest := GraphHole{}
	for _, seconds := range append(slices.Clone(g.Time), until.Unix()) {
		at, step := time.Unix(seconds, 0), max(GraphStep, time.Duration(of.SyncPeriodSeconds*float64(time.Second)))
		if now.Sub(at) > GraphFull {
			step = max(step, GraphThin)
		}
		if at.Sub(last) > holeSteps*step+holeMargin {
			hole := GraphHole{last.Unix(), seconds}
			g.Holes = append(g.Holes, hole)
			if hole.To-hole.From > longest.To-longest.From {
				longest = hole
			}
		}
		last = at
	}
	stamp := func(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }
	switch len(g.Holes) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("no data points from %s to %s", stamp(longest.From), stamp(longest.To))
	}
	return fmt.Sprintf("no data points in %d periods, the longest from %s to %s", len(g.Holes), stamp(longest.From), stamp(longest.To))
}

// graphSpan is the period of a graph if the request contains no start.
const graphSpan = 24 * time.Hour

func (h handlers) graph(r *http.Request, in Period) (Graph, error) {
	if in.To.IsZero() {
		in.To = time.Now()
	}
	if in.From.IsZero() {
		in.From = in.To.Add(-graphSpan)
	}
	shown, err := h.daemon.Graph(r.Context(), r.PathValue("name"), in.From, in.To)
	if err != nil {
		return shown, err
	}
	view, err := h.named(r)
	if err == nil {
		if text := shown.FindHoles(&view, in.From, in.To, time.Now()); text != "" {
			Warn(r.Context(), text)
		}
	} else if len(shown.Time) > 0 { // also of a removed autoscaler
		err = nil
	}
	shown.Metrics = append([]GraphMetric{}, shown.Metrics...) // encode an empty list as []
	return shown, err
}
