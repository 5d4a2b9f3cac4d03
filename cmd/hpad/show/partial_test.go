package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

// TestPartialIsShown checks that get, describe and explain show the warning about a partial result,
// whether or not the metric failed because of it.
func TestPartialIsShown(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 5, 0, 0, time.UTC)
	const warning = "No StoreAPIs matched: store unavailable"
	goal := int64(1000)
	spec := policy.Default(policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{{
		Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
	}}})
	for name, total := range map[string]int64{"up": 9000, "the same": 6000, "down": 1000} {
		t.Run(name, func(t *testing.T) {
			observation := policy.Observation{SpecReplicas: 6, StatusReplicas: 6, Metrics: []policy.Reading{{
				ValuesMilli: []int64{total}, Warnings: []string{warning}, Partial: warning,
			}}}
			d := policy.Decide(policy.Settings{Tolerance: 0.1}, spec, policy.Memory{}, policy.Status{}, observation, now)
			view := api.Autoscaler{
				Name: "web", Spec: spec, Status: d.Status, Decision: &d, Inputs: []api.Input{{Source: "prom", Query: "q"}},
				Instances: api.Instances{Ready: 6}, Evaluation: api.Evaluation{Error: d.Error},
			}
			var listed, described, explained strings.Builder
			list := func(yield func(api.Autoscaler) bool) { yield(view) }
			if err := show.Autoscalers(&listed, list, false, now); err != nil {
				t.Fatal(err)
			}
			if err := show.Autoscaler(&described, view, api.InstanceList{}, 0, now); err != nil {
				t.Fatal(err)
			}
			if err := explain.Write(&explained, view.Explanation(), time.UTC); err != nil {
				t.Fatal(err)
			}
			sentence := explain.Sentence(d, view.Evaluation)
			for what, text := range map[string]string{"get": listed.String(), "describe": described.String(), "explain": explained.String(), "the sentence": sentence} {
				if !strings.Contains(text, warning) {
					t.Errorf("%s lacks the warning:\n%s", what, text)
				}
			}
		})
	}
}
