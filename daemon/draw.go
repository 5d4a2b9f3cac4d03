package daemon

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/policy"
)

// draw keeps what drawings show of a pass, unless the last one that they show is too near.
func (p *pass) draw(decision *policy.Decision) {
	a := p.autoscaler
	if p.graph == nil || time.Duration(p.now.Unix()-a.drawn)*time.Second < graph.Step {
		return
	}
	a.drawn = p.now.Unix()
	point := graph.Point{
		Time: p.now, Replicas: decision.CurrentReplicas, Desired: decision.DesiredReplicas,
		Min: decision.MinReplicas, Max: decision.MaxReplicas, Metrics: p.definition.drawn,
	}
	if decision.Case == policy.CaseUnreadable {
		point.Replicas, point.Desired = graph.Unknown, graph.Unknown
	}
	var few [8]float64
	point.Values = few[:0]
	for i := range point.Metrics {
		proposal, value := math.NaN(), math.NaN()
		if i < len(decision.Metrics) {
			metric := &decision.Metrics[i]
			if metric.Proposes() {
				proposal = float64(metric.Proposal)
			}
			if metric.Error == "" {
				value = measured(metric)
			}
		}
		point.Values = append(point.Values, proposal, value)
	}
	p.graph.Add(a.name, &point)
}

// measured returns what a metric measures, in the unit of its goal; NaN where that is not
// known.
func measured(m *policy.MetricResult) float64 {
	const milli = 1000
	switch {
	case m.Goal == policy.UtilizationTarget && m.Current.AverageUtilization != nil:
		return float64(*m.Current.AverageUtilization)
	case m.Goal == policy.AverageValueTarget && m.Current.AverageValueMilli != nil:
		return float64(*m.Current.AverageValueMilli) / milli
	case m.Goal == policy.ValueTarget && m.Current.ValueMilli != nil:
		return float64(*m.Current.ValueMilli) / milli
	}
	return math.NaN()
}

// drawnNames returns a name for each metric, none twice.
func drawnNames(metrics []policy.MetricSpec) []string {
	names := make([]string, 0, len(metrics))
	for i := range metrics {
		m := &metrics[i]
		name := m.Name
		if of := cmp.Or(m.Task, m.Object); of != "" {
			name += " of " + of
		}
		for n, alone := 2, name; slices.Contains(names, name); n++ {
			name = fmt.Sprintf("%s (%d)", alone, n)
		}
		names = append(names, name)
	}
	return names
}

// Graph returns what drawings show of an autoscaler, from one time up to another. The
// error is an api.ErrUnknown where nothing is kept.
func (s *status) Graph(_ context.Context, name string, from, to time.Time) (api.Graph, error) {
	if s.graph == nil {
		return api.Graph{}, fmt.Errorf("no points are kept for drawings, daemon.page is false: %w", api.ErrUnknown)
	}
	scale := s.clock.Scale()
	points, err := s.graph.Read(name, scale.Steady(from), scale.Steady(to))
	if err != nil {
		return api.Graph{}, err
	}
	shown := api.Graph{Time: make([]int64, len(points.Time)), Replicas: points.Replicas, Desired: points.Desired, Min: points.Min, Max: points.Max}
	for i, at := range points.Time {
		shown.Time[i] = scale.Wall(at).Unix()
	}
	for _, m := range points.Metrics {
		shown.Metrics = append(shown.Metrics, api.GraphMetric{Name: m.Name, Proposals: m.Proposals, Values: m.Values})
	}
	return shown, nil
}
