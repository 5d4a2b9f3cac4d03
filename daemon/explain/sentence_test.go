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

// cpu is a result of 90% of a goal of 60%.
var cpu = policy.MetricResult{
	Type: policy.ResourceMetric, Name: "cpu", Goal: policy.UtilizationTarget, GoalValue: 60,
	Current: policy.MetricStatus{AverageUtilization: new(int32(90))},
}

// queue is a result that failed.
var queue = policy.MetricResult{Type: policy.ExternalMetric, Name: "queue", Error: "no answer\nfrom prom."}

// missing returns a result that failed five minutes before, with an on_missing after so
// many minutes, or after as many again.
func missing(use policy.MissingUse, replicas int32, active bool) policy.MetricResult {
	result := queue
	result.Fallback = &policy.Fallback{Use: use, Replicas: &replicas, FirstFailureTime: noon.Add(-5 * time.Minute), From: noon, Active: active}
	if result.Proposal = replicas; !active {
		result.Proposal, result.Fallback.From = 0, noon.Add(5*time.Minute)
	}
	return result
}

// byMetrics returns a decision that cpu's proposal led to.
func byMetrics(current, wanted, desired int32) policy.Decision {
	return policy.Decision{
		Time: noon, Case: policy.CaseMetrics, CurrentReplicas: current, DesiredReplicas: desired, Write: current != desired,
		MinReplicas: 1, MaxReplicas: 10, Metrics: []policy.MetricResult{cpu}, Winner: new(0),
		Raw: &wanted, Recommendation: &wanted,
	}
}

// with changes a decision.
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
		{"up", byMetrics(4, 6, 6), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6.", "12:00:00 4 → 6: "},
		{"put back", with(byMetrics(1, 6, 20), func(d *policy.Decision) {
			d.Case, d.Restore = policy.CaseRestored, &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon.Add(-time.Minute)}
		}), "The count goes up from 1 to 20, which puts back what somebody else changed to 1 (noticed at 11:59:00).", "12:00:00 1 → 20: "},
		{"to be put back", with(byMetrics(1, 6, 20), func(d *policy.Decision) {
			d.Case, d.Restore = policy.CaseRestored, &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon.Add(-time.Minute)}
			d.Write, d.Hold = false, &policy.Hold{Reason: "DeploymentActive", Message: "busy"}
		}), "The count should go up from 1 to 20, which puts back what somebody else changed to 1 (noticed at 11:59:00); it is not written while the platform is held (DeploymentActive: busy).", "12:00:00 1: "},
		{"put back by an older version", with(byMetrics(1, 6, 20), func(d *policy.Decision) {
			d.Case = policy.CaseRestored
		}), "The count goes up from 1 to 20, which puts back what somebody else changed.", "12:00:00 1 → 20: "},
		{"no change", byMetrics(4, 4, 4), "The count stays at 4, because cpu (90% of a goal of 60%) asks for no other.", "12:00:00 4: "},
		{"held by the window", with(byMetrics(4, 2, 4), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{Replicas: 4, Binding: &policy.Recommendation{Replicas: 5, Time: noon.Add(-time.Minute)}}
		}), "The count stays at 4, although cpu (90% of a goal of 60%) asks for 2; the recommendation of 5 from 11:59:00 still holds it at 4.", "12:00:00 4: "},
		{"pulled up by the window (R59)", with(byMetrics(4, 3, 8), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{Replicas: 8, Binding: &policy.Recommendation{Replicas: 8, Time: noon.Add(-time.Minute)}}
		}), "The count goes up from 4 to 8, although cpu (90% of a goal of 60%) asks for 3; the recommendation of 8 from 11:59:00 still holds it at 8.", "12:00:00 4 → 8: "},
		{"max", with(byMetrics(4, 20, 10), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 10, Limited: true, Reason: "TooManyReplicas"}
		}), "The count goes up from 4 to 10, because cpu (90% of a goal of 60%) asks for 20; max allows 10.", ""},
		{"min", with(byMetrics(4, 0, 1), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 1, Limited: true, Reason: "TooFewReplicas"}
		}), "The count goes down from 4 to 1, because cpu (90% of a goal of 60%) asks for 0; min allows no fewer than 1.", ""},
		{"at min, held by the window", with(byMetrics(2, 0, 2), func(d *policy.Decision) {
			d.MinReplicas = 2
			d.Stabilization = &policy.Stabilization{Replicas: 2, Binding: &policy.Recommendation{Replicas: 2, Time: noon.Add(-time.Minute)}}
		}), "The count stays at 2, although cpu (90% of a goal of 60%) asks for 0; the recommendation of 2 from 11:59:00 still holds it at 2; min is 2.", ""},
		{"at min, which the metrics ask for", byMetrics(1, 1, 1), "The count stays at 1, because cpu (90% of a goal of 60%) asks for no other; min is 1.", ""},
		{"at max, held by the window", with(byMetrics(10, 20, 10), func(d *policy.Decision) {
			d.Stabilization = &policy.Stabilization{Replicas: 10, Binding: &policy.Recommendation{Replicas: 4, Time: noon.Add(-time.Minute)}}
		}), "The count stays at 10, although cpu (90% of a goal of 60%) asks for 20; the recommendation of 4 from 11:59:00 still holds it at 10; max is 10.", ""},
		{"no instance is ready (R41)", with(byMetrics(2, 0, 2), func(d *policy.Decision) {
			d.Metrics[0] = policy.MetricResult{
				Type: policy.ExternalMetric, Name: "latency", Goal: policy.ValueTarget, GoalValue: 1000,
				Current: policy.MetricStatus{ValueMilli: new(int64(10_000))}, Ratio: new(10.0), Rule: "R41",
			}
			d.Stabilization = &policy.Stabilization{Replicas: 2, Binding: &policy.Recommendation{Replicas: 2, Time: noon.Add(-time.Minute)}}
		}), "The count stays at 2, although latency (10 of a goal of 1) asks for 0 (0 instances are ready, and the ratio 10 times 0 is 0); the recommendation of 2 from 11:59:00 still holds it at 2.", ""},
		{"direction disabled", with(byMetrics(4, 2, 4), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 4, Limited: true, Reason: "ScaleDownLimit"}
		}), "The count stays at 4, although cpu (90% of a goal of 60%) asks for 2; this direction is not allowed (ScaleDownLimit).", ""},
		{"plain doubling", with(byMetrics(4, 20, 8), func(d *policy.Decision) {
			d.Limit = &policy.Limit{Replicas: 8, Rate: new(int32(8)), Limited: true, Reason: "ScaleUpLimit"}
		}), "The count goes up from 4 to 8, because cpu (90% of a goal of 60%) asks for 20; the rate limit allows 8 for now (ScaleUpLimit).", ""},
		{"platform bound", with(byMetrics(4, 6, 5), func(d *policy.Decision) {
			d.PlatformBound = &policy.PlatformBound{Reason: "PlatformMax", Replicas: 5, Wanted: 6}
		}), "The count goes up from 4 to 5, because cpu (90% of a goal of 60%) asks for 6; the platform's own bound (PlatformMax) is 5.", ""},
		{"from zero", with(byMetrics(0, 1, 2), func(d *policy.Decision) {
			d.MinReplicas, d.RaisedToMin = 2, true
		}), "The count goes up from 0 to 2, because cpu (90% of a goal of 60%) asks for 1; coming back from zero means at least min (2).", ""},
		{"one metric failed", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, queue)
		}), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6; a metric failed (queue: no answer from prom).", ""},
		{"two metrics failed", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			other := queue
			other.Name = "jobs"
			d.Metrics = append(d.Metrics, queue, other)
		}), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6; 2 metrics failed (queue: no answer from prom; jobs: no answer from prom).", ""},
		{"a metric that failed proposes", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseReplicas, 6, true))
			d.Winner = new(1)
		}), "The count goes up from 4 to 6, because on_missing (replicas:6) of queue, which has failed since 11:55:00, asks for 6; a metric failed (queue: no answer from prom).", ""},
		{"a metric that failed proposes the same", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics, d.Winner = []policy.MetricResult{missing(policy.UseHold, 4, true)}, new(0)
		}), "The count stays at 4, because on_missing (hold) of queue, which has failed since 11:55:00, asks for no other; a metric failed (queue: no answer from prom).", ""},
		{"a metric that failed will propose", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseMax, 10, false))
		}), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (max) proposes 10 from 12:05:00 on).", ""},
		{"a metric that failed proposes less", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = append(d.Metrics, missing(policy.UseLast, 3, true))
		}), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (last) proposes 3).", ""},
		{"a metric that failed has nothing to propose", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			result := missing(policy.UseLast, 0, false)
			result.Fallback.Replicas = nil
			d.Metrics = append(d.Metrics, result)
		}), "The count goes up from 4 to 6, because cpu (90% of a goal of 60%) asks for 6; a metric failed (queue: no answer from prom, failing since 11:55:00, and on_missing (last) has no proposal, because the last one is not known).", ""},
		{"memory", with(byMetrics(4, 6, 6), func(d *policy.Decision) {
			d.Metrics = []policy.MetricResult{{
				Type: policy.ContainerResourceMetric, Name: "memory", Task: "app", Goal: policy.AverageValueTarget, GoalValue: 400 << 20 * 1000,
				Current: policy.MetricStatus{AverageValueMilli: new(int64(629_145_601_000))},
			}}
		}), "The count goes up from 4 to 6, because memory of task app (600Mi of a goal of 400Mi per instance) asks for 6.", ""},
		{
			"all failed",
			policy.Decision{Time: noon, Case: policy.CaseMetricsFailed, CurrentReplicas: 4, DesiredReplicas: 4, Metrics: []policy.MetricResult{queue}},
			"The count stays at 4, because the metrics could not decide: queue: no answer from prom.", "12:00:00 4: ",
		},
		{
			"scale-down with a failed metric",
			policy.Decision{Time: noon, Case: policy.CaseMetricsFailed, CurrentReplicas: 4, DesiredReplicas: 4, Metrics: []policy.MetricResult{{Type: policy.ResourceMetric, Name: "cpu", Proposal: 2}, queue}},
			"The count stays at 4, because nothing is scaled down while a metric fails, although the others ask for 2: queue: no answer from prom.", "12:00:00 4: ",
		},
		{"instances without a measurement (R36)", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics[0].Ratio, d.Metrics[0].CompletedRatio, d.Metrics[0].Groups = new(1.5), new(0.9), &policy.Groups{}
			d.Metrics[0].ToleranceUp, d.Metrics[0].ToleranceDown = 0.1, 0.1
		}), "The count stays at 4, because cpu (90% of a goal of 60%) asks for no other once those instances are counted that have no measurement yet.", ""},
		{"instances without a measurement that change nothing", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Metrics[0].Ratio, d.Metrics[0].CompletedRatio, d.Metrics[0].Groups = new(1.05), new(1.02), &policy.Groups{}
			d.Metrics[0].ToleranceUp, d.Metrics[0].ToleranceDown = 0.1, 0.1
		}), "The count stays at 4, because cpu (90% of a goal of 60%) asks for no other.", ""},
		{
			"unreadable",
			policy.Decision{Time: noon, Case: policy.CaseUnreadable, Error: "read job: 404"},
			"Nothing is decided, because the target could not be read: read job: 404.", "12:00:00 -: ",
		},
		{
			"below min",
			policy.Decision{Time: noon, Case: policy.CaseBelowMin, CurrentReplicas: 1, DesiredReplicas: 2, MinReplicas: 2, Write: true},
			"The count goes up from 1 to 2, because it is below min (2).", "12:00:00 1 → 2: ",
		},
		{
			"disabled",
			policy.Decision{Time: noon, Case: policy.CaseDisabled},
			"The target stays at zero, because it was not its metrics that asked for zero.", "12:00:00 0: ",
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
				t.Errorf("line %q, want %q and the sentence", got, test.wantLine)
			}
		})
	}
}

// What became of a write is said with its reason, and once.
func TestSentenceTellsWhatBecameOfTheWrite(t *testing.T) {
	restored := policy.Decision{
		Time: noon, Case: policy.CaseRestored, CurrentReplicas: 1, DesiredReplicas: 20, Write: true,
		Foreign: &policy.ForeignChange{From: 20}, Restore: &policy.Restoration{Replicas: 20, Foreign: 1, Since: noon},
	}
	up := byMetrics(1, 3, 3)
	const because = ", because cpu (90% of a goal of 60%) asks for 3"
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
			"The count should go up from 1 to 3" + because + `; it is not written while the platform is held (DependencyNotReady: service "web" depends on "db" (service_healthy), which is not healthy; new replicas wait for it).`, "1",
		},
		{"dry run", up, api.Evaluation{DryRun: true}, "The count should go up from 1 to 3" + because + "; it is not written, because hpad is in a dry run.", "1"},
		{
			"started in part", up,
			api.Evaluation{Written: new(int32(2)), Error: `scale service "shop/web" of fleet "docker" to 3 replicas: 2 replicas reached: no space left on device`},
			"The count goes from 1 to 2, and not up to 3" + because + `; only 2 could be reached (scale service "shop/web" of fleet "docker" to 3 replicas: 2 replicas reached: no space left on device).`, "1 → 2",
		},
		{"failed", up, api.Evaluation{Error: "scale group: forbidden."}, "The count should go up from 1 to 3" + because + "; it was not written (scale group: forbidden).", "1"},
		{
			"failed beside a metric", failing,
			api.Evaluation{Error: "scale group: forbidden; " + failing.Error},
			"The count should go up from 1 to 3" + because + "; it was not written (scale group: forbidden); a metric failed (queue: no answer from prom).", "1",
		},
		{"of an earlier version", up, api.Evaluation{}, "The count should go up from 1 to 3" + because + "; it was not written (why is not recorded).", "1"},
		{"written, and not saved", up, api.Evaluation{Written: new(int32(3)), Error: "save the count: disk full"}, "The count goes up from 1 to 3" + because + "; not all of that went well (save the count: disk full).", "1 → 3"},
		{"put back", restored, api.Evaluation{Written: new(int32(20))}, "The count goes up from 1 to 20, which puts back what somebody else changed to 1 (noticed at 12:00:00).", "1 → 20"},
		{
			"put back later", with(restored, func(d *policy.Decision) {
				d.Write, d.Foreign, d.Hold = false, nil, &policy.Hold{Reason: "DeploymentActive", Message: "a deployment is active"}
			}),
			api.Evaluation{},
			"The count should go up from 1 to 20, which puts back what somebody else changed to 1 (noticed at 12:00:00); it is not written while the platform is held (DeploymentActive: a deployment is active).", "1",
		},
		{"changed by somebody", with(byMetrics(4, 4, 4), func(d *policy.Decision) {
			d.Foreign = &policy.ForeignChange{From: 7}
		}), api.Evaluation{}, "The count stays at 4, because cpu (90% of a goal of 60%) asks for no other; somebody else had changed the count from 7 to 4.", "4"},
		{
			"switched off by somebody",
			policy.Decision{Time: noon, Case: policy.CaseDisabled, Foreign: &policy.ForeignChange{From: 3}},
			api.Evaluation{},
			"The target stays at zero, because it was not its metrics that asked for zero; somebody else had changed the count from 3 to 0.", "0",
		},
		{"unreadable", policy.Decision{Time: noon, Case: policy.CaseUnreadable, Error: "no."}, api.Evaluation{}, "Nothing is decided, because the target could not be read: no.", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := explain.Sentence(test.decision, test.became); got != test.want {
				t.Errorf("sentence:\n got %s\nwant %s", got, test.want)
			}
			if got := explain.Count(test.decision, test.became); got != test.wantCount {
				t.Errorf("count %q, want %q", got, test.wantCount)
			}
		})
	}
}
