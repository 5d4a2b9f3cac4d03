package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/explain"
	"github.com/hpad/hpad/policy"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// cpu is the result of a metric with a utilization of 90% and a target of 60%.
var cpu = policy.MetricResult{
	Type: policy.ResourceMetric, Name: "cpu", TargetType: policy.UtilizationTarget, TargetValue: 60,
	Current: policy.MetricStatus{AverageUtilization: new(int32(90))},
}

// queue is the result of a failed metric.
var queue = policy.MetricResult{Type: policy.ExternalMetric, Name: "queue", Error: "no answer\nfrom prom."}

func missing(use policy.MissingUse, replicas int32, active bool) policy.MetricResult {
	result := queue
	result.Fallback = &policy.Fallback{Use: use, Replicas: &replicas, FirstFailureTime: noon.Add(-5 * time.Minute), From: noon, Active: active}
	if result.Proposal = replicas; !active {
		result.Proposal, result.Fallback.From = 0, noon.Add(5*time.Minute)
	}
	return result
}

// byMetrics returns a decision that follows cpu's proposal.
func byMetrics(current, wanted, desired int32) policy.Decision {
	return policy.Decision{
		Time: noon, Case: policy.CaseMetrics, CurrentReplicas: current, DesiredReplicas: desired, Write: current != desired,
		MinReplicas: 1, MaxReplicas: 10, Metrics: []policy.MetricResult{cpu}, Winner: new(0),
		Raw: &wanted, Recommendation: &wanted,
	}
}

// failedFormula returns a decision without a recommendation, because a formula over one input
// failed.
func failedFormula(failure string, input policy.MetricResult) policy.Decision {
	input.Input = true
	return policy.Decision{
		Time: noon, Case: policy.CaseMetricsFailed, CurrentReplicas: 4, DesiredReplicas: 4,
		Metrics: []policy.MetricResult{input, {Type: policy.ExternalMetric, Name: "formula", Error: failure}},
	}
}

// with returns a modified decision.
func with(d policy.Decision, change func(*policy.Decision)) policy.Decision {
	change(&d)
	return d
}

func TestSentenceAndLine(t *testing.T) {
	for _, test := range []struct {
		name     string
		decision policy.Decision
		want     string
		wantLine string
	}{
		{"up", byMetrics(4, 6, 6), "Scaled up from 4 to 6: cpu is 90%, target 60%.", "12:00:00 4 → 6: "},
		{"restored", with(byMetrics(1, 6, 20), func(d *policy.Decision) {
			d.Case, d.Restore = policy.CaseRestored, &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon.Add(-time.Minute)}
		}), "Scaled up from 1 to 20: restores the count after an external change to 1 (noticed at 11:59:00).", "12:00:00 1 → 20: "},
		{"restoration pending", with(byMetrics(1, 6, 20), func(d *policy.Decision) {
			d.Case, d.Restore = policy.CaseRestored, &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon.Add(-time.Minute)}
			d.Write, d.Hold = false, &policy.Hold{Reason: "DeploymentActive", Message: "busy"}
		}), "Wants to scale up from 1 to 20: restores the count after an external change to 1 (noticed at 11:59:00); not written: held (DeploymentActive: busy).", "12:00:00 1: "},
		{"no change", byMetrics(4, 4, 4), "Kept at 4: cpu is 90%, target 60%.", "12:00:00 4: "},
		{"held by the window", with(byMetrics(4, 2, 4), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{DownWindow: 5 * time.Minute, Replicas: 4, Binding: &policy.Recommendation{Replicas: 5, Time: noon.Add(-time.Minute)}}
		}), "Kept at 4: cpu is 90% (target 60%) and suggests 2, but a recommendation of 5 from 11:59:00 is still inside the 5m0s scale-down window.", "12:00:00 4: "},
		{"raised by the window (R59)", with(byMetrics(4, 3, 8), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{DownWindow: 5 * time.Minute, Replicas: 8, Binding: &policy.Recommendation{Replicas: 8, Time: noon.Add(-time.Minute)}}
		}), "Scaled up from 4 to 8: cpu is 90% (target 60%) and suggests 3, but a recommendation of 8 from 11:59:00 is still inside the 5m0s scale-down window.", "12:00:00 4 → 8: "},
		{"an outage", with(byMetrics(8, 8, 8), func(d *policy.Decision) {
			d.Outage = &policy.Outage{Since: noon.Add(-time.Minute), Until: noon.Add(9 * time.Minute), Proposed: 2}
		}), "Kept at 8: cpu is 90% (target 60%) and suggests 2, but no instance has been ready since 11:59:00, so the metrics do not lower the count before 12:09:00 (outage_hold).", "12:00:00 8: "},
		{"max", with(byMetrics(4, 20, 10), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 10, Limited: true, Reason: "TooManyReplicas"}
		}), "Scaled up from 4 to 10: cpu is 90% (target 60%) and suggests 20, but max is 10.", ""},
		{"min", with(byMetrics(4, 0, 1), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 1, Limited: true, Reason: "TooFewReplicas"}
		}), "Scaled down from 4 to 1: cpu is 90% (target 60%) and suggests 0, but min is 1.", ""},
		{"at min, held by the window", with(byMetrics(2, 0, 2), func(d *policy.Decision) {
			d.MinReplicas = 2
			d.Stabilization = &policy.Stabilization{DownWindow: 5 * time.Minute, Replicas: 2, Binding: &policy.Recommendation{Replicas: 2, Time: noon.Add(-time.Minute)}}
		}), "Kept at 2: cpu is 90% (target 60%) and suggests 0, but a recommendation of 2 from 11:59:00 is still inside the 5m0s scale-down window; min is 2.", ""},
		{"at min, as the metrics suggest", byMetrics(1, 1, 1), "Kept at 1: cpu is 90%, target 60%; min is 1.", ""},
		{"at max, held by the window", with(byMetrics(10, 20, 10), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{UpWindow: 3 * time.Minute, Replicas: 10, Binding: &policy.Recommendation{Replicas: 4, Time: noon.Add(-time.Minute)}}
		}), "Kept at 10: cpu is 90% (target 60%) and suggests 20, but a recommendation of 4 from 11:59:00 is still inside the 3m0s scale-up window; max is 10.", ""},
		{"no instance is ready (R41)", with(byMetrics(2, 0, 2), func(d *policy.Decision) {
			d.Metrics[0] = policy.MetricResult{
				Type: policy.ExternalMetric, Name: "latency", TargetType: policy.ValueTarget, TargetValue: 1000,
				Current: policy.MetricStatus{ValueMilli: new(int64(10_000))}, Ratio: new(10.0), Rule: "R41",
			}
			d.Stabilization = &policy.Stabilization{DownWindow: 5 * time.Minute, Replicas: 2, Binding: &policy.Recommendation{Replicas: 2, Time: noon.Add(-time.Minute)}}
		}), "Kept at 2: latency is 10 (target 1) and suggests 0 (0 instances are ready, and the ratio 10 times 0 is 0), but a recommendation of 2 from 11:59:00 is still inside the 5m0s scale-down window.", ""},
		{"not above the activation", with(byMetrics(0, 0, 0), func(d *policy.Decision) {
			d.MinReplicas, d.Metrics = 0, []policy.MetricResult{{
				Type: policy.ExternalMetric, Name: "queue", TargetType: policy.AverageValueTarget, TargetValue: 30_000, Total: 4000, ActivationMilli: new(int64(5000)),
			}}
		}), "Kept at 0: queue is 4, not above its activation of 5.", ""},
		{"direction disabled", with(byMetrics(4, 2, 4), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 4, Limited: true, Reason: "ScaleDownLimit"}
		}), "Kept at 4: cpu is 90% (target 60%) and suggests 2, but this direction is disabled (ScaleDownLimit).", ""},
		{"rate limit without behavior", with(byMetrics(4, 20, 8), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 8, Rate: new(int32(8)), Limited: true, Reason: "ScaleUpLimit"}
		}), "Scaled up from 4 to 8: cpu is 90% (target 60%) and suggests 20, but the rate limit allows 8 for now (ScaleUpLimit).", ""},
		{"platform bound", with(byMetrics(4, 6, 5), func(d *policy.Decision) {
			d.PlatformBound = &policy.PlatformBound{Reason: "PlatformMax", Replicas: 5, Wanted: 6}
		}), "Scaled up from 4 to 5: cpu is 90% (target 60%) and suggests 6, but the platform's limit (PlatformMax) is 5.", ""},
		{"from zero", with(byMetrics(0, 1, 2), func(d *policy.Decision) {
			d.MinReplicas, d.RaisedToMin = 2, true
		}), "Scaled up from 0 to 2: cpu is 90% (target 60%) and suggests 1, but a target at zero starts at min (2).", ""},
		{"one metric failed", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, queue)
		}), "Scaled up from 4 to 6: cpu is 90%, target 60%; a metric failed (queue: no answer from prom).", ""},
		{"two metrics failed", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			other := queue
			other.Name = "jobs"
			d.Metrics = append(d.Metrics, queue, other)
		}), "Scaled up from 4 to 6: cpu is 90%, target 60%; 2 metrics failed (queue: no answer from prom; jobs: no answer from prom).", ""},
		{"a failed metric proposes", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseReplicas, 6, true))
			d.Winner = new(1)
		}), "Scaled up from 4 to 6: on_missing (replicas:6) of queue, which has failed since 11:55:00, suggests 6; a metric failed (queue: no answer from prom).", ""},
		{"a failed metric proposes the same", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics, d.Winner = []policy.MetricResult{missing(policy.UseHold, 4, true)}, new(0)
		}), "Kept at 4: on_missing (hold) of queue, which has failed since 11:55:00, suggests no change; a metric failed (queue: no answer from prom).", ""},
		{"a failed metric will propose", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseMax, 10, false))
		}), "Scaled up from 4 to 6: cpu is 90%, target 60%; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (max) will propose 10 at 12:05:00).", ""},
		{"a failed metric proposes less", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseLast, 3, true))
		}), "Scaled up from 4 to 6: cpu is 90%, target 60%; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (last) proposes 3).", ""},
		{"a failed metric has no proposal", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			result := missing(policy.UseLast, 0, false)
			result.Fallback.Replicas = nil
			d.Metrics = append(d.Metrics, result)
		}), "Scaled up from 4 to 6: cpu is 90%, target 60%; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (last) has no proposal, because the last one is unknown).", ""},
		{"memory", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = []policy.MetricResult{{
				Type: policy.ContainerResourceMetric, Name: "memory", Task: "app", TargetType: policy.AverageValueTarget, TargetValue: 400 << 20 * 1000,
				Current: policy.MetricStatus{AverageValueMilli: new(int64(629_145_601_000))},
			}}
		}), "Scaled up from 4 to 6: memory of task app is 600Mi per instance, target 400Mi.", ""},
		{"total at 0", with(byMetrics(0, 1, 1), func(d *policy.Decision) {
			d.Metrics = []policy.MetricResult{{
				Type: policy.ExternalMetric, Name: "queue", TargetType: policy.AverageValueTarget, TargetValue: 10_000,
				Current: policy.MetricStatus{ValueMilli: new(int64(6000))},
			}}
		}), "Scaled up from 0 to 1: queue is 6 in total, target 10 per instance.", ""},
		{
			"all failed",
			policy.Decision{Time: noon, Case: policy.CaseMetricsFailed, CurrentReplicas: 4, DesiredReplicas: 4, Metrics: []policy.MetricResult{queue}},
			"Kept at 4: no metric has a value: queue: no answer from prom.", "12:00:00 4: ",
		},
		{
			"scale-down with a failed metric",
			policy.Decision{Time: noon, Case: policy.CaseMetricsFailed, CurrentReplicas: 4, DesiredReplicas: 4, Metrics: []policy.MetricResult{{Type: policy.ResourceMetric, Name: "cpu", Proposal: 2}, queue}},
			"Kept at 4: the other metrics suggest 2, but hpad does not scale down while a metric fails: queue: no answer from prom.", "12:00:00 4: ",
		},
		{"a failed formula", failedFormula("division by zero", policy.MetricResult{Type: policy.ExternalMetric, Name: "queue", Proposal: 2}), "Kept at 4: the formula failed: division by zero.", "12:00:00 4: "},
		{"a formula with a failed input", failedFormula("input queue is missing: no answer from prom", queue), "Kept at 4: the formula failed: queue: no answer from prom.", "12:00:00 4: "},
		{"instances without a measurement (R36)", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics[0].Ratio, d.Metrics[0].CompletedRatio, d.Metrics[0].Groups = new(1.5), new(0.9), &policy.Groups{}
			d.Metrics[0].ToleranceUp, d.Metrics[0].ToleranceDown = 0.1, 0.1
		}), "Kept at 4: cpu is 90%, target 60%, which leaves no change once instances without a measurement are included.", ""},
		{"instances without a measurement but no effect", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics[0].Ratio, d.Metrics[0].CompletedRatio, d.Metrics[0].Groups = new(1.05), new(1.02), &policy.Groups{}
			d.Metrics[0].ToleranceUp, d.Metrics[0].ToleranceDown = 0.1, 0.1
		}), "Kept at 4: cpu is 90%, target 60%.", ""},
		{
			"unreadable",
			policy.Decision{Time: noon, Case: policy.CaseUnreadable, Error: "read job: 404"},
			"No decision: the target could not be read: read job: 404.", "12:00:00 -: ",
		},
		{
			"below min",
			policy.Decision{Time: noon, Case: policy.CaseBelowMin, CurrentReplicas: 1, DesiredReplicas: 2, MinReplicas: 2, Write: true},
			"Scaled up from 1 to 2: below min (2).", "12:00:00 1 → 2: ",
		},
		{
			"disabled",
			policy.Decision{Time: noon, Case: policy.CaseDisabled},
			"Kept at 0: autoscaling is disabled, because the metrics did not set the count to 0.", "12:00:00 0: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var became api.Evaluation
			if test.decision.Write {
				became.Written = &test.decision.DesiredReplicas
			}
			if got := explain.Sentence(test.decision, became); got != test.want {
				t.Errorf("sentence:\n got %s\nwant %s", got, test.want)
			}
			if got := explain.Line(test.decision, became); !strings.HasPrefix(got, test.wantLine) || !strings.HasSuffix(got, test.want) {
				t.Errorf("line = %q, want %q and the sentence", got, test.wantLine)
			}
		})
	}
}

// TestSentenceWrite checks how a sentence describes the result of a write.
func TestSentenceWrite(t *testing.T) {
	restored := policy.Decision{
		Time: noon, Case: policy.CaseRestored, CurrentReplicas: 1, DesiredReplicas: 20, Write: true,
		Foreign: &policy.ForeignChange{From: 20}, Restore: &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon},
	}
	up := byMetrics(1, 3, 3)
	const because = ": cpu is 90%, target 60%"
	failing := with(up, func(d *policy.Decision) {
		d.Metrics = append(d.Metrics, queue)
		d.Error = "1 of 2 metrics failed, first external metric queue: no answer"
	})
	for _, test := range []struct {
		name      string
		decision  policy.Decision
		became    api.Evaluation
		want      string
		wantCount string
	}{
		{
			"held by a dependency", up,
			api.Evaluation{Hold: &policy.Hold{Reason: "DependencyNotReady", Message: `service "web" depends on "db" (service_healthy), which is not healthy; new replicas wait for it.`}},
			"Wants to scale up from 1 to 3" + because + `; not written: held (DependencyNotReady: service "web" depends on "db" (service_healthy), which is not healthy; new replicas wait for it).`, "1",
		},
		{"dry run", up, api.Evaluation{DryRun: true}, "Wants to scale up from 1 to 3" + because + "; not written: hpad is in a dry run.", "1"},
		{
			"partially started", up,
			api.Evaluation{Written: new(int32(2)), Error: `scale service "shop/web" of fleet "docker" to 3 replicas: 2 replicas reached: no space left on device`},
			"Scaled from 1 to 2 instead of 3" + because + `; only partially written: scale service "shop/web" of fleet "docker" to 3 replicas: 2 replicas reached: no space left on device.`, "1 → 2",
		},
		{"failed", up, api.Evaluation{Error: "scale group: forbidden."}, "Wants to scale up from 1 to 3" + because + "; not written: scale group: forbidden.", "1"},
		{
			"failed together with a metric", failing,
			api.Evaluation{Error: "scale group: forbidden; " + failing.Error},
			"Wants to scale up from 1 to 3" + because + "; not written: scale group: forbidden; a metric failed (queue: no answer from prom).", "1",
		},
		{"recorded by an earlier version", up, api.Evaluation{}, "Wants to scale up from 1 to 3" + because + "; not written: no cause is recorded.", "1"},
		{"written but not saved", up, api.Evaluation{Written: new(int32(3)), Error: "save the count: disk full"}, "Scaled up from 1 to 3" + because + "; written, with an error: save the count: disk full.", "1 → 3"},
		{"restored", restored, api.Evaluation{Written: new(int32(20))}, "Scaled up from 1 to 20: restores the count after an external change to 1 (noticed at 12:00:00).", "1 → 20"},
		{
			"restored later", with(restored, func(d *policy.Decision) {
				d.Write, d.Foreign, d.Hold = false, nil, &policy.Hold{Reason: "DeploymentActive", Message: "a deployment is active"}
			}),
			api.Evaluation{},
			"Wants to scale up from 1 to 20: restores the count after an external change to 1 (noticed at 12:00:00); not written: held (DeploymentActive: a deployment is active).", "1",
		},
		{"changed by an external writer", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Foreign = &policy.ForeignChange{From: 7}
		}), api.Evaluation{}, "Kept at 4: cpu is 90%, target 60%; an external writer had changed the count from 7 to 4.", "4"},
		{
			"disabled by an external writer",
			policy.Decision{Time: noon, Case: policy.CaseDisabled, Foreign: &policy.ForeignChange{From: 3}},
			api.Evaluation{},
			"Kept at 0: autoscaling is disabled, because the metrics did not set the count to 0; an external writer had changed the count from 3 to 0.", "0",
		},
		{"unreadable", policy.Decision{Time: noon, Case: policy.CaseUnreadable, Error: "no."}, api.Evaluation{}, "No decision: the target could not be read: no.", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := explain.Sentence(test.decision, test.became); got != test.want {
				t.Errorf("sentence:\n got %s\nwant %s", got, test.want)
			}
			if got := explain.Count(test.decision, test.became); got != test.wantCount {
				t.Errorf("count = %q, want %q", got, test.wantCount)
			}
		})
	}
}
