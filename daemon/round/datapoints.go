package round

import (
	"math"
	"time"

	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/policy"
)

// addDataPoint adds a data point of the pass to the graph, at most once per graph.Step.
func (p *pass) addDataPoint(decision *policy.Decision) {
	a := p.autoscaler
	if p.env.Graph == nil || time.Duration(p.now().Unix()-a.lastPoint)*time.Second < graph.Step {
		return
	}
	a.lastPoint = p.now().Unix()
	point := graph.Point{
		Time: p.now(), Replicas: decision.CurrentReplicas, Desired: decision.DesiredReplicas,
		Min: decision.MinReplicas, Max: decision.MaxReplicas,
	}
	if decision.Case == policy.CaseUnreadable {
		point.Replicas, point.Desired = graph.Unknown, graph.Unknown
	}
	var few [8]float64
	point.Values = few[:0]
	for i := range p.definition.graphed.Metrics {
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
	p.env.Graph.Add(&p.definition.graphed, &point)
}

// measured returns the value of a metric in the unit of its target value, or NaN if the value is
// unknown.
func measured(m *policy.MetricResult) float64 {
	const milli = 1000
	switch {
	case m.TargetType == policy.UtilizationTarget && m.Current.AverageUtilization != nil:
		return float64(*m.Current.AverageUtilization)
	case m.TargetType == policy.AverageValueTarget && m.Current.AverageValueMilli != nil:
		return float64(*m.Current.AverageValueMilli) / milli
	case m.TargetType == policy.ValueTarget && m.Current.ValueMilli != nil:
		return float64(*m.Current.ValueMilli) / milli
	}
	return math.NaN()
}
