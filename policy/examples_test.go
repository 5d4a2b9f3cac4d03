package policy_test

import (
	"strconv"
	"time"

	"github.com/hpad/hpad/policy"
)

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

func queueOf(current, status int32, values ...int64) policy.Observation {
	return policy.Observation{SpecReplicas: current, StatusReplicas: status, Metrics: []policy.Reading{{ValuesMilli: values}}}
}

// benchSettings are the default settings (R7).
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
