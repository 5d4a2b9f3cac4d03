package round

import (
	"hash/fnv"

	"github.com/hpad/hpad/daemon/graph"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/simulate"
)

// addDataPoint adds the data point of the pass to the graph, unless the store wants fewer points.
// record returns the recording of the pass.
func (p *pass) addDataPoint(decision *policy.Decision, record func() simulate.Tick) {
	a, now := p.autoscaler, p.now().Unix()
	if p.env.Graph == nil || !p.env.Graph.Wants(a.lastPoint, now) {
		return
	}
	a.lastPoint = now
	var few [4]graph.Metric
	point := graph.Point{
		Tick: record(),
		Min:  decision.MinReplicas, Max: decision.MaxReplicas, Target: p.definition.graphedTarget, Metrics: few[:0],
	}
	for i := range p.definition.graphed.Metrics {
		metric := graph.Metric{Proposal: graph.Unknown}
		if i < len(decision.Metrics) {
			result := &decision.Metrics[i]
			if result.Proposes() {
				metric.Proposal = result.Proposal
			}
			metric.Unit = unitOf(result)
			if p.definition.Spec.Metrics[i].Formula != "" {
				metric.Formula = result.InputMilli()
			}
		}
		point.Metrics = append(point.Metrics, metric)
	}
	p.env.Graph.Add(&p.definition.graphed, &point)
}

// unitOf returns the unit of the target value of a metric, or graph.NoValue if the value is unknown.
func unitOf(m *policy.MetricResult) graph.Unit {
	switch {
	case m.Error != "":
	case m.TargetType == policy.UtilizationTarget && m.Current.AverageUtilization != nil:
		return graph.Percent
	case m.TargetType == policy.AverageValueTarget && m.Current.AverageValueMilli != nil && m.Groups != nil:
		return graph.PerSample
	case m.TargetType == policy.AverageValueTarget && m.Current.AverageValueMilli != nil:
		return graph.PerInstance
	case m.TargetType == policy.ValueTarget && m.Current.ValueMilli != nil:
		return graph.Whole
	}
	return graph.NoValue
}

// hashOf returns a hash of texts.
func hashOf(texts ...string) uint32 {
	sum := fnv.New32a()
	for _, text := range texts {
		_, _ = sum.Write([]byte(text))
		_, _ = sum.Write([]byte{0})
	}
	return sum.Sum32()
}
