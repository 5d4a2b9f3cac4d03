package policy_test

import (
	"math"
	"testing"

	"github.com/hpad/hpad/policy"
)

// TestKubernetesVersions checks each difference between the versions with numbers of upstream's
// rules. The conformance tests compare whole scenarios.
func TestKubernetesVersions(t *testing.T) {
	const huge = math.MaxInt64/2 + 10
	external := func(replicas int32, total int64) policy.Observation { return queueOf(4, replicas, total) }
	// measured returns instances with a cpu request, a phase and a sample each.
	measured := func(request int64, samples ...int64) policy.Observation {
		instances, readings := instancesWith(start, policy.ReadinessTrue, samples...)
		for i := range instances {
			instances[i].Tasks = []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: request}}}}
			readings[i].Milli, readings[i].OK = samples[i], true
		}
		return policy.Observation{SpecReplicas: int32(len(samples)), StatusReplicas: int32(len(samples)), Instances: instances, Metrics: []policy.Reading{{Samples: readings}}}
	}
	succeeded := measured(1000, 900, 900, 100)
	succeeded.Instances[2].Phase = policy.PhaseSucceeded
	memory := perInstance("memory", 1000)
	memory.Type = policy.ResourceMetric
	object := policy.MetricSpec{Type: policy.ObjectMetric, Name: "hits", Object: "route/main", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(1000))}}
	whole := policy.Observation{SpecReplicas: 4, StatusReplicas: 4, Metrics: []policy.Reading{{ValueMilli: new(int64(math.MaxInt64))}}}
	for _, test := range []struct {
		name   string
		metric policy.MetricSpec
		o      policy.Observation
		// The proposal and the reported value: the average, or the utilization; it may be nil.
		proposal [2]int32
		value    [2]*int64
	}{
		{"R4: a sum of amounts", memory, measured(1, huge, huge), [2]int32{math.MinInt32, math.MaxInt32}, [2]*int64{new(int64(huge + math.MinInt64)), new(int64(huge))}},
		{"R35: a utilization beyond 32 bits", cpuUtilization(50), measured(1, 1<<30, 1<<30), [2]int32{0, 85_899_346}, [2]*int64{new(int64(0)), new(int64(math.MaxInt32))}},
		{"R27: a succeeded instance", cpuUtilization(50), succeeded, [2]int32{4, 4}, [2]*int64{new(int64(63)), new(int64(90))}},
		{"R45: no status replicas", queueMetric(1000), external(0, 3000), [2]int32{3, 3}, [2]*int64{nil, new(int64(0))}},
		{"R45: an Object metric at the limit", object, whole, [2]int32{math.MaxInt32, math.MaxInt32}, [2]*int64{new(int64(1 << 61)), new(int64(math.MaxInt64))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := policy.Default(policy.Spec{MaxReplicas: 1000, Metrics: []policy.MetricSpec{test.metric}})
			for i, version := range []policy.Kubernetes{policy.Kubernetes137, policy.Kubernetes138} {
				settings := benchSettings
				settings.Kubernetes = version
				in := policy.Inputs{Settings: settings, Spec: spec, Observation: test.o, Now: start}
				d := in.Decide()
				result, value := d.Metrics[0], d.Metrics[0].Current.AverageValueMilli
				if percent := result.Current.AverageUtilization; percent != nil {
					value = new(int64(*percent))
				}
				if result.Error != "" || result.Proposal != test.proposal[i] || (value == nil) != (test.value[i] == nil) || value != nil && *value != *test.value[i] {
					t.Errorf("version %q: proposal %d, value %v, error %q; want %d, %v", version, result.Proposal, text(value), result.Error, test.proposal[i], text(test.value[i]))
				}
				checkReplay(t, in, d)
				policy.LookAhead(settings, spec, d.Memory, d.Status, d, d.CurrentReplicas)
			}
		})
	}
}

func text(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}
