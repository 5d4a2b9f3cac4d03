package explain_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

func TestNext(t *testing.T) {
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	lag := policy.MetricResult{Type: policy.ExternalMetric, Name: "lag", TargetType: policy.AverageValueTarget, TargetValue: 30_000}
	decision := byMetrics(10, 3, 10)
	decision.Metrics, decision.StatusReplicas, decision.Recommendation = append(decision.Metrics, lag), 4, new(int32(3))
	over := func(way int64, values ...int64) (all []policy.Threshold) {
		for i, value := range values {
			all = append(all, policy.Threshold{Metric: i, Value: value, Total: i == 1, Proposal: 10 + int32(way)})
		}
		return all
	}
	decision.MinReplicas = 2
	for name, c := range map[string]struct {
		next policy.Next
		want []string
	}{
		"nothing": {policy.Next{}, nil},
		"window": {
			policy.Next{At: at(270), Replicas: 5, Waits: []policy.Wait{{Reason: "ScaleDownStabilized", Replicas: 8, Until: at(255)}}},
			[]string{"to 5 at 12:04:30, if the metrics still suggest 3: the recommendation of 8 leaves the window at 12:04:15"},
		},
		"policy, tomorrow": {
			policy.Next{At: at(86400), Replicas: 9, Waits: []policy.Wait{{
				Reason: "ScaleDownLimit", Replicas: 10, Until: at(86400), Policy: &policy.ScalingPolicy{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 60},
			}}},
			[]string{"to 9 at 2026-11-22 12:00:00, if the metrics still suggest 3: the policy Percent 10 per 1m0s allows 10, and more at 2026-11-22 12:00:00"},
		},
		"above max": {
			policy.Next{Count: 12, At: at(15), Replicas: 10},
			[]string{"to 10 at 12:00:15, because 12 is above max (10)"},
		},
		"below min": {
			policy.Next{Count: 1, At: at(15), Replicas: 2},
			[]string{"to 2 at 12:00:15, because 1 is below min (2)"},
		},
		"stopped by a schedule": {
			policy.Next{Waits: []policy.Wait{{Reason: "TooManyReplicas"}}},
			[]string{"waiting: a schedule stops the target (max_replicas = 0)"},
		},
		"never": {
			policy.Next{Count: 10, Waits: []policy.Wait{{Reason: "ScaleDownLimit", Replicas: 10}, {Reason: "PlatformMin", Replicas: 10}}},
			[]string{"waiting: this direction is disabled (DirectionDisabled); the platform's limit (PlatformMin) is 10"},
		},
		"bounds and a hold": {
			policy.Next{Waits: []policy.Wait{{Reason: "TooFewReplicas", Replicas: 2}, {Reason: "Busy", Message: "a rollout.", Until: at(60)}}},
			[]string{"waiting: limited by min (2); held (Busy: a rollout) until 12:01:00"},
		},
		"a metric without a value": {
			policy.Next{Waits: []policy.Wait{{Reason: "FailedGetExternalMetric", Message: "external metric lag"}}},
			[]string{"waiting: no value for external metric lag"},
		},
		"a metric with a later fallback": {
			policy.Next{Waits: []policy.Wait{{Reason: "FailedGetExternalMetric", Message: "external metric lag", Replicas: 0, Until: at(60)}}},
			[]string{"waiting: no value for external metric lag; its on_missing proposes 0 at 12:01:00"},
		},
		"values": {
			policy.Next{
				Up:   &policy.Move{At: at(15), Metrics: over(1, 66, 132_000)},
				Down: &policy.Move{At: at(300), Metrics: over(-1, 54, 90_001)},
			},
			[]string{
				"up at 12:00:15 at the earliest, if cpu is over 66% or lag is over 33 per instance",
				"down at 12:05:00 at the earliest, if cpu is under 54% and lag is at most 90 in total",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explain.Next(&c.next, api.Explanation{Decision: &decision}, time.UTC); !slices.Equal(got, c.want) {
				t.Errorf("Next = %q, want %q", got, c.want)
			}
		})
	}
}
