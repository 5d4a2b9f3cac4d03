package policy_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// benchSettings are the defaults of R7.
var benchSettings = policy.Settings{
	Tolerance:               0.1,
	DownscaleStabilization:  5 * time.Minute,
	CPUInitializationPeriod: 5 * time.Minute,
	InitialReadinessDelay:   30 * time.Second,
	ScaleToZero:             true,
}

func cpuUtilization(percent int32) policy.MetricSpec {
	return policy.MetricSpec{
		Type: policy.ResourceMetric, Name: "cpu",
		Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: &percent},
	}
}

func perInstance(name string, goal int64) policy.MetricSpec {
	return policy.MetricSpec{
		Type: policy.InstancesMetric, Name: name,
		Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
	}
}

func queueMetric(goal int64) policy.MetricSpec {
	return policy.MetricSpec{
		Type: policy.ExternalMetric, Name: "queue",
		Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: &goal},
	}
}

// fleetOf are n running and ready instances of one task each, with samples that
// differ from one to the next.
func fleetOf(n int, now time.Time) policy.Observation {
	o := policy.Observation{SpecReplicas: int32(n), StatusReplicas: int32(n)}
	o.Instances = make([]policy.Instance, n)
	samples := make([]policy.Sample, n)
	for i := range n {
		o.Instances[i] = policy.Instance{
			ID: "instance-" + strconv.Itoa(i), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue,
			StartedAt: now.Add(-time.Hour), ReadinessChanged: now.Add(-time.Hour + 10*time.Second),
			Tasks: []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 1000}, {Resource: "memory", Milli: 1 << 40}}}},
		}
		samples[i] = policy.Sample{Milli: int64(500 + i%100), OK: true, At: now.Add(-10 * time.Second), Window: 30 * time.Second}
	}
	o.Metrics = []policy.Reading{{Samples: samples}}
	return o
}

func settledFor(settings policy.Settings, spec policy.Spec, o policy.Observation, now time.Time) (policy.Memory, policy.Status) {
	memory, status := policy.Memory{}, policy.Status{}
	for i := 40; i > 0; i-- {
		at := now.Add(-time.Duration(i) * 15 * time.Second)
		s := policy.Settle(policy.Decide(settings, spec, memory, status, o, at), policy.Outcome{}, at)
		memory, status = s.Memory, s.Status
	}
	return memory, status
}

func BenchmarkDecide(b *testing.B) {
	now := start.Add(24 * time.Hour)
	for _, n := range []int{1, 10, 100, 1000, 10000} {
		b.Run("instances="+strconv.Itoa(n), func(b *testing.B) {
			spec := policy.Default(policy.Spec{MaxReplicas: 20000, Metrics: []policy.MetricSpec{cpuUtilization(55)}, Behavior: &policy.Behavior{}})
			benchmarkDecide(b, spec, fleetOf(n, now), now)
		})
	}
	b.Run("metrics=5/instances=100", func(b *testing.B) {
		memory := cpuUtilization(60)
		memory.Name = "memory"
		spec := policy.Default(policy.Spec{MaxReplicas: 20000, Behavior: &policy.Behavior{}, Metrics: []policy.MetricSpec{
			cpuUtilization(55), memory, perInstance("rps", 500), perInstance("connections", 510), queueMetric(30_000),
		}})
		o := fleetOf(100, now)
		samples := o.Metrics[0].Samples
		o.Metrics = []policy.Reading{{Samples: samples}, {Samples: samples}, {Samples: samples}, {Samples: samples}, {ValuesMilli: []int64{3_000_000}}}
		benchmarkDecide(b, spec, o, now)
	})
}

func benchmarkDecide(b *testing.B, spec policy.Spec, o policy.Observation, now time.Time) {
	memory, status := settledFor(benchSettings, spec, o, now)
	b.ReportAllocs()
	for b.Loop() {
		decision := policy.Decide(benchSettings, spec, memory, status, o, now)
		if decision.Case != policy.CaseMetrics {
			b.Fatalf("the decision is %+v", decision)
		}
	}
}
