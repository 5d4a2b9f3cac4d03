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
