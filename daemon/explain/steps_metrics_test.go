package explain

import (
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
)

// TestMetricSteps checks the explanations of an activation and of a formula.
func TestMetricSteps(t *testing.T) {
	var p steps
	p.metrics(api.Explanation{Inputs: []api.Input{{Source: "prom", Query: "q"}, {Query: "2 * queue"}}}, policy.Decision{Metrics: []policy.MetricResult{
		{Type: policy.ExternalMetric, Name: "queue", Input: true, TargetType: policy.AverageValueTarget, Total: 3000, Ratio: new(0.15)},
		{Type: policy.ExternalMetric, Name: "formula", TargetType: policy.AverageValueTarget, Total: 4000, ActivationMilli: new(int64(5500))},
	}})
	for _, want := range []string{"value in the formula: 3", "from the formula 2 * queue", "result of the formula: 4", "formula is 4 in total, not above the activation of 5.5, which applies at 0 replicas"} {
		if !strings.Contains(p.text.String(), want) {
			t.Errorf("the explanation has no line %q:\n%s", want, p.text.String())
		}
	}
	if strings.Contains(p.text.String(), "ratio") {
		t.Errorf("an input of the formula has a ratio:\n%s", p.text.String())
	}
}
