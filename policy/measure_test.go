package policy

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	goal := int32(50)
	metric := MetricSpec{Type: ResourceMetric, Name: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: &goal}}
	settings := Settings{Tolerance: 0.1, CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second}
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 500 {
		var o Observation
		var reading Reading
		for range 1 + random.IntN(12) {
			started := now.Add(-time.Duration(random.IntN(600)) * time.Second)
			o.Instances = append(o.Instances, Instance{
				ID: "i", Phase: Phase(random.IntN(5)), Readiness: Readiness(random.IntN(4)), Deleting: random.IntN(6) == 0,
				StartedAt: started, ReadinessChanged: started.Add(time.Minute),
				Tasks: []Task{{Name: "app", Requests: []Amount{{Resource: "cpu", Milli: 200}}}},
			})
			reading.Samples = append(reading.Samples, Sample{Milli: int64(random.IntN(400)), OK: random.IntN(5) > 0, At: now, Window: time.Minute})
		}
		o.SpecReplicas, o.StatusReplicas = int32(len(o.Instances)), int32(len(o.Instances))
		o.Metrics = []Reading{reading}
		d := Decide(settings, Default(Spec{MaxReplicas: 100, Metrics: []MetricSpec{metric}}), Memory{}, Status{}, o, now)
		groups, sum := map[string]int{}, int64(0)
		for i, m := range Measure(settings, &metric, o.Instances, &reading, now) {
			groups[m.Group]++
			seen[m.Group]++
			if m.Group == "ready" {
				sum += *m.ValueMilli
			}
			if sample := reading.Samples[i]; sample.OK != (m.ValueMilli != nil) || sample.OK && (*m.ValueMilli != sample.Milli || int64(*m.Utilization) != sample.Milli/2) {
				t.Fatalf("Measure of sample %+v = %+v", sample, m)
			}
		}
		got := d.Metrics[0].Groups
		if got == nil || got.Ready != groups["ready"] || got.Unready != groups["unready"] || got.Missing != groups["missing"] || got.Ignored != groups["ignored"] {
			t.Fatalf("groups from Measure = %v, groups from a pass = %+v", groups, got)
		}
		if average := d.Status.Metrics[0].AverageValueMilli; average != nil && got.Ready > 0 && *average != sum/int64(got.Ready) {
			t.Fatalf("average = %d, average of the ready instances = %d", *average, sum/int64(got.Ready))
		}
	}
	if len(seen) != 4 {
		t.Errorf("too few cases: %v", seen)
	}
}
