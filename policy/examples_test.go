package policy_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// instancesWith are instances of one task that requests 1 cpu, and their cpu
// samples: one in percent for each instance, negative where there is none.
func instancesWith(now time.Time, readiness policy.Readiness, percents ...int64) ([]policy.Instance, []policy.Sample) {
	var instances []policy.Instance
	var samples []policy.Sample
	for i, percent := range percents {
		instances = append(instances, policy.Instance{
			ID: "i-" + strconv.Itoa(i), Phase: policy.PhaseRunning, Readiness: readiness,
			StartedAt: now.Add(-time.Hour), ReadinessChanged: now.Add(-time.Hour),
			Tasks: []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 1000}}}},
		})
		samples = append(samples, policy.Sample{Milli: percent * 10, OK: percent >= 0, At: now, Window: 30 * time.Second})
	}
	return instances, samples
}

// TestUsageExamples are the worked examples 1 to 5 of the algorithm's
// description: 10 instances at most are enough to follow them by hand.
func TestUsageExamples(t *testing.T) {
	now := start
	repeat := func(percent int64, n int) []int64 { return slices.Repeat([]int64{percent}, n) }
	for _, test := range []struct {
		name          string
		current       int32
		target        int32
		ready         []int64
		unready       []int64
		want          int32
		rule          string
		base          int32
		within        bool
		missing       int
		ratioFinished float64 // the ratio that counted
	}{
		{"above target", 8, 60, repeat(70, 8), nil, 10, "R36.2", 8, false, 0, 70.0 / 60},
		{"inside the band", 10, 50, repeat(55, 10), nil, 10, "R36.2", 0, true, 0, 1.1},
		{"unready ones vanish on the way down", 10, 80, repeat(40, 5), repeat(40, 5), 3, "R36.2", 5, false, 0, 0.5},
		{"unready ones count on the way up", 6, 80, repeat(120, 4), repeat(120, 2), 6, "R36.5", 0, true, 0, 1},
		{"a missing one uses its request on the way down", 4, 80, []int64{40, 40, 40, -1}, nil, 3, "R36.8", 4, false, 1, 55.0 / 80},
	} {
		t.Run(test.name, func(t *testing.T) {
			instances, samples := instancesWith(now, policy.ReadinessTrue, test.ready...)
			unready, more := instancesWith(now, policy.ReadinessFalse, test.unready...)
			for i := range unready { // never ready since the start: R27.4
				unready[i].ReadinessChanged = unready[i].StartedAt
			}
			o := policy.Observation{
				SpecReplicas: test.current, StatusReplicas: test.current,
				Instances: append(instances, unready...), Metrics: []policy.Reading{{Samples: append(samples, more...)}},
			}
			spec := policy.Default(policy.Spec{MaxReplicas: 100, Metrics: []policy.MetricSpec{cpuUtilization(test.target)}})
			m := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, now).Metrics[0]
			if m.Error != "" || m.Proposal != test.want || m.Rule != test.rule || m.BaseCount != test.base || m.Within != test.within {
				t.Errorf("result %+v, want proposal %d by %s of base %d, within %v", m, test.want, test.rule, test.base, test.within)
			}
			if m.Groups == nil || m.Groups.Missing != test.missing || m.Groups.Unready != len(test.unready) || m.Groups.Ready+test.missing != len(test.ready) {
				t.Errorf("groups %+v", m.Groups)
			}
			ratio := m.Ratio
			if m.CompletedRatio != nil {
				ratio = m.CompletedRatio
			}
			if ratio == nil || *ratio != test.ratioFinished {
				t.Errorf("ratio %v, want %v", *ratio, test.ratioFinished)
			}
		})
	}
}

// queueOf is an observation of an External metric alone.
func queueOf(current, status int32, values ...int64) policy.Observation {
	return policy.Observation{SpecReplicas: current, StatusReplicas: status, Metrics: []policy.Reading{{ValuesMilli: values}}}
}

func TestLimitExamples(t *testing.T) { // examples 6 and 7
	for _, test := range []struct {
		name     string
		behavior *policy.Behavior
		want     int32
		rate     int32
		policy   *policy.ScalingPolicy
	}{
		{"without behavior", nil, 6, 6, nil},
		{"default behavior", &policy.Behavior{}, 7, 7, &policy.ScalingPolicy{Type: policy.InstancesPolicy, Value: 4, PeriodSeconds: 15}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := policy.Default(policy.Spec{MaxReplicas: 1000, Metrics: []policy.MetricSpec{queueMetric(1000)}, Behavior: test.behavior})
			d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, queueOf(3, 3, 100_000), start)
			if d.DesiredReplicas != test.want || d.Limit == nil || d.Limit.Reason != "ScaleUpLimit" || !d.Limit.Limited || *d.Limit.Rate != test.rate {
				t.Fatalf("%d by %+v, want %d", d.DesiredReplicas, d.Limit, test.want)
			}
			if got := d.Limit.Policy; (got == nil) != (test.policy == nil) || got != nil && *got != *test.policy {
				t.Errorf("policy %+v, want %+v", got, test.policy)
			}
			if d.Reason != policy.MetricAboveTarget || d.Message != "New size: "+strconv.Itoa(int(test.want))+"; reason: external metric queue above target" {
				t.Errorf("reason %q, message %q", d.Reason, d.Message)
			}
		})
	}
}

func TestScaleDownRateExample(t *testing.T) { // example 8
	spec := policy.Default(policy.Spec{MaxReplicas: 100, Metrics: []policy.MetricSpec{queueMetric(1000)}, Behavior: &policy.Behavior{
		ScaleDown: &policy.ScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			Policies:                   []policy.ScalingPolicy{{Type: policy.PercentPolicy, Value: 10, PeriodSeconds: 60}},
		},
	}})
	memory, status, current := policy.Memory{}, policy.Status{}, int32(80)
	for i, want := range []int32{72, 72, 72, 72, 64, 64, 64, 64, 57} {
		now := start.Add(time.Duration(i) * 15 * time.Second)
		d := policy.Decide(benchSettings, spec, memory, status, queueOf(current, current, 1000), now)
		outcome := policy.Outcome{}
		if d.Write {
			outcome = policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}
			current = d.DesiredReplicas
		}
		s := policy.Settle(d, outcome, now)
		memory, status = s.Memory, s.Status
		if current != want {
			t.Fatalf("at %s there are %d replicas, want %d", now.Sub(start), current, want)
		}
	}
}

func TestWindowExamples(t *testing.T) { // examples 9 and 10
	for _, test := range []struct {
		name     string
		behavior *policy.Behavior
		last     time.Duration // the last round that holds 10
	}{
		{"without behavior the edge counts", nil, 300 * time.Second},
		{"with behavior it does not", &policy.Behavior{}, 285 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := policy.Default(policy.Spec{MaxReplicas: 100, Metrics: []policy.MetricSpec{queueMetric(1000)}, Behavior: test.behavior})
			memory, status := policy.Memory{}, policy.Status{}
			for at := time.Duration(0); at <= 330*time.Second; at += 15 * time.Second {
				queue := int64(2000)
				if at == 0 {
					queue = 10_000
				}
				now := start.Add(at)
				d := policy.Decide(benchSettings, spec, memory, status, queueOf(10, 10, queue), now)
				want := int32(10)
				if at > test.last {
					want = 2
				}
				if d.DesiredReplicas != want {
					t.Fatalf("at %s: %d, want %d (%+v)", at, d.DesiredReplicas, want, d.Stabilization)
				}
				if at > 0 && at <= test.last && (d.Stabilization.Binding == nil || !d.Stabilization.Binding.Time.Equal(start) ||
					!d.Stabilization.BindingLeaves.Equal(start.Add(300*time.Second)) || d.Stabilization.Reason != "ScaleDownStabilized") {
					t.Errorf("at %s: %+v", at, d.Stabilization)
				}
				s := policy.Settle(d, policy.Outcome{}, now)
				memory, status = s.Memory, s.Status
			}
		})
	}
}

func TestAverageValueExamples(t *testing.T) { // examples 11 and 12
	spec := policy.Default(policy.Spec{MaxReplicas: 100, Metrics: []policy.MetricSpec{queueMetric(30_000)}})
	for _, test := range []struct{ queue, want int64 }{{900_000, 30}, {310_000, 10}} {
		d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, queueOf(10, 10, test.queue), start)
		if got := d.Metrics[0].Proposal; int64(got) != test.want {
			t.Errorf("a queue of %d proposes %d, want %d", test.queue, got, test.want)
		}
	}
}

func TestFailedMetricExamples(t *testing.T) { // examples 13 and 14
	spec := policy.Default(policy.Spec{MaxReplicas: 100, Metrics: []policy.MetricSpec{queueMetric(1000), queueMetric(1000)}})
	spec.Metrics[1].Name = "broken"
	for _, test := range []struct {
		name    string
		queue   int64
		want    policy.Case
		desired int32
	}{
		{"down", 3000, policy.CaseMetricsFailed, 5},
		{"up", 8000, policy.CaseMetrics, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := queueOf(5, 5, test.queue)
			o.Metrics = append(o.Metrics, policy.Reading{Error: "connection refused"})
			d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{DesiredReplicas: 4}, o, start)
			if d.Case != test.want || d.DesiredReplicas != test.desired {
				t.Errorf("%s: %d, want %s: %d", d.Case, d.DesiredReplicas, test.want, test.desired)
			}
			const want = "1 of 2 metrics failed, first external metric broken: connection refused"
			if d.Error != want {
				t.Errorf("error %q, want %q", d.Error, want)
			}
		})
	}
}
