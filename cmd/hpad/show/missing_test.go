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

// TestOnMissingIsShown checks that describe and explain show a proposal of on_missing with the
// failure of the metric.
func TestOnMissingIsShown(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 5, 0, 0, time.UTC)
	goal := int64(1000)
	missing := &policy.OnMissing{AfterSeconds: 180, Use: policy.UseReplicas, Replicas: 8}
	spec := policy.Default(policy.Spec{MaxReplicas: 10, Metrics: []policy.MetricSpec{{
		Type: policy.ExternalMetric, Name: "queue", OnMissing: missing,
		Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
	}}})
	memory := policy.Memory{Missing: []policy.MissingMetric{{Type: policy.ExternalMetric, Name: "queue", FirstFailureTime: now.Add(-5 * time.Minute)}}}
	observation := policy.Observation{SpecReplicas: 6, StatusReplicas: 6, Metrics: []policy.Reading{{Error: "connection\nrefused"}}}
	d := policy.Decide(policy.Settings{Tolerance: 0.1}, spec, memory, policy.Status{}, observation, now)
	view := api.Autoscaler{Name: "web", Spec: spec, Status: d.Status, Decision: &d, Inputs: []api.Input{{Source: "prom", Query: "q"}}}
	var described, explained strings.Builder
	if err := show.Autoscaler(&described, view, api.InstanceList{}, 0, now); err != nil {
		t.Fatal(err)
	}
	if err := explain.Write(&explained, view.Explanation(), time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{described.String(), "on missing:"},
		{described.String(), "replicas:8, after 3m0s"},
		{described.String(), "connection refused, failing since 12:00:00, and on_missing (replicas:8) proposes 8"},
		{described.String(), "ExternalMetricFallbackActive"},
		{explained.String(), "failed: connection\n"},
		{explained.String(), "failing since 12:00:00, and on_missing (replicas:8) proposes 8\n"},
		{explained.String(), "proposal: 8 (on_missing)"},
		{explained.String(), "on_missing (replicas:8) of queue, which has failed since 12:00:00, suggests 8"},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("%q is not in\n%s", c.want, c.text)
		}
	}
}
