package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

func draw(t *rapid.T, name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }

// TestObserve records random observations and compares the decisions of the original and of the
// rebuilt observation.
func TestObserve(t *testing.T) {
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		spec := policy.Default(policy.Spec{MinReplicas: new(int32(1)), MaxReplicas: 30, Metrics: randomMetrics(t)})
		settings := policy.Settings{
			Tolerance: 0.1, CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second, OutageHold: time.Minute, ScaleToZero: true,
		}
		in := policy.Inputs{Settings: settings, Spec: spec, Observation: randomObservation(t, spec.Metrics, now), Now: now}
		want := in.Decide()
		tick := Record(&in, &want, policy.Outcome{}, false, false)
		in.Observation = newObserver(spec.Metrics).observe(&tick, tick.Readings, now)
		got := in.Decide()
		if diff := cmp.Diff(want.Memory, got.Memory); diff != "" {
			t.Errorf("memory: %s\n%+v", diff, tick)
		}
		for _, d := range []*policy.Decision{&want, &got} {
			d.Message, d.Error, d.Draft = "", "", nil
			for i := range d.Metrics {
				if m := &d.Metrics[i]; m.Error != "" {
					*m = policy.MetricResult{Error: "failed"}
				} else {
					*m = policy.MetricResult{Proposal: m.Proposal, Groups: m.Groups, Ratio: m.Ratio, CompletedRatio: m.CompletedRatio, Rule: m.Rule, Ready: m.Ready}
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%+v", diff, tick)
		}
	})
}

func randomMetrics(t *rapid.T) []policy.MetricSpec {
	average := policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(draw(t, "average", 1, 2000)))}
	percent := policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(draw(t, "percent", 1, 200)))}
	whole := policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: new(int64(draw(t, "value", 1, 2000)))}
	all := []policy.MetricSpec{
		{Type: policy.ResourceMetric, Name: "cpu", Target: percent},
		{Type: policy.ResourceMetric, Name: "memory", Target: percent},
		{Type: policy.ResourceMetric, Name: "example.com/gpu", Target: percent},
		{Type: policy.ContainerResourceMetric, Name: "cpu", Task: "main", Target: percent},
		{Type: policy.ResourceMetric, Name: "memory", Target: average},
		{Type: policy.InstancesMetric, Name: "requests", Target: average},
		{Type: policy.ObjectMetric, Name: "route", Object: "a/b", Target: average},
		{Type: policy.ObjectMetric, Name: "delay", Object: "a/b", Target: whole},
		{Type: policy.ExternalMetric, Name: "jobs", Target: average},
		{Type: policy.ExternalMetric, Name: "load", Target: whole},
	}
	return rapid.Permutation(all).Draw(t, "metrics")[:draw(t, "count", 1, 2)]
}

func randomObservation(t *rapid.T, metrics []policy.MetricSpec, now time.Time) policy.Observation {
	o := policy.Observation{SpecReplicas: int32(draw(t, "spec", 0, 12)), StatusReplicas: int32(draw(t, "status", 0, 12))}
	amounts := []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 1000}, {Resource: "example.com/gpu", Milli: 300}}
	reported := rapid.Bool().Draw(t, "reported")
	for i := range draw(t, "instances", 0, 8) {
		instance := policy.Instance{
			Phase: policy.Phase(draw(t, "phase", 1, 4)), Deleting: draw(t, "deleting", 0, 4) == 0, Tasks: []policy.Task{{Name: "main", Requests: amounts}},
			StartedAt: now.Add(-time.Duration(draw(t, "started", 0, 600)) * time.Second), ReadinessChanged: now.Add(-time.Duration(draw(t, "changed", 0, 600)) * time.Second),
		}
		if reported {
			instance.Readiness = policy.Readiness(draw(t, "readiness", 1, 3))
		}
		if i%2 == 0 {
			instance.Requests = amounts[:2]
		}
		o.Instances = append(o.Instances, instance)
	}
	for i := range metrics {
		var reading policy.Reading
		switch milli := int64(draw(t, "milli", 0, 9000)); {
		case draw(t, "missing", 0, 9) == 0:
			reading.Error = "missing"
		case metrics[i].Type == policy.ObjectMetric:
			reading.ValueMilli = &milli
		case metrics[i].Type == policy.ExternalMetric:
			reading.ValuesMilli = []int64{milli, 3}
		default:
			for range len(o.Instances) + draw(t, "unknown instances", 0, 2) {
				reading.Samples = append(reading.Samples, policy.Sample{
					Milli: int64(draw(t, "sample", 0, 900)), OK: draw(t, "ok", 0, 4) > 0, At: now.Add(-time.Duration(draw(t, "age", 0, 400)) * time.Second), Window: 15 * time.Second,
				})
			}
		}
		o.Metrics = append(o.Metrics, reading)
	}
	return o
}
