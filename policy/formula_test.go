package policy_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// formulaSpec has the metrics queue, latency and cpu, and a formula with an average value of 10.
func formulaSpec(text string, kind policy.TargetType) policy.Spec {
	spec := policy.Spec{
		MinReplicas: new(int32(1)), MaxReplicas: 20,
		Metrics: []policy.MetricSpec{
			{Type: policy.ExternalMetric, Name: "queue", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(1000))}},
			{Type: policy.ExternalMetric, Name: "latency", Target: policy.MetricTarget{Type: policy.ValueTarget, ValueMilli: new(int64(1000))}},
			{Type: policy.ResourceMetric, Name: "cpu", Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(50))}},
			{Type: policy.ExternalMetric, Name: "formula", Formula: text, Target: policy.MetricTarget{Type: kind}},
		},
		Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(0))}},
	}
	target := &spec.Metrics[3].Target
	if target.ValueMilli = new(int64(10_000)); kind == policy.AverageValueTarget {
		target.ValueMilli, target.AverageValueMilli = nil, target.ValueMilli
	}
	return policy.Default(spec)
}

// formulaOf returns four instances with a cpu utilization of 40 % and the readings of the other
// inputs.
func formulaOf(queue, latency policy.Reading) policy.Observation {
	o := policy.Observation{SpecReplicas: 4, StatusReplicas: 4, Metrics: []policy.Reading{queue, latency, {}, {}}}
	for range 4 {
		o.Instances = append(o.Instances, policy.Instance{
			Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, StartedAt: start.Add(-time.Hour), ReadinessChanged: start.Add(-time.Hour),
			Tasks: []policy.Task{{Name: "main", Requests: []policy.Amount{{Resource: "cpu", Milli: 1000}}}},
		})
		o.Metrics[2].Samples = append(o.Metrics[2].Samples, policy.Sample{Milli: 400, OK: true, At: start})
	}
	return o
}

func TestFormula(t *testing.T) {
	const all = "0.7 * queue + 0.3 * latency + 0 * cpu"
	partial := items(10)
	partial.Partial = "a store failed"
	for _, test := range []struct {
		name, formula  string
		kind           policy.TargetType
		queue, latency policy.Reading
		want           int32
		message        string
	}{
		{"the inputs alone would propose 100", all, policy.AverageValueTarget, items(100), items(10), 8, "formula " + all + " above target"},
		{"float noise adds no instance", "0.07 * queue * 10 + 0 * (latency + cpu)", policy.AverageValueTarget, items(100), items(1), 7, "above target"},
		{"lower", all, policy.AverageValueTarget, items(10), items(10), 1, "all metrics below target"},
		{"a utilization", "cpu + 0 * queue + 0 * latency", policy.ValueTarget, items(1), items(1), 8, "above target"},
		{"within the tolerance", "10 + 0 * (queue + latency + cpu)", policy.ValueTarget, items(1), items(1), 4, "no change"},
		{"a missing input", all, policy.AverageValueTarget, failed, items(10), 4, "1 of 3 metrics failed, first external metric queue: connection refused"},
		{"a missing input does not start instances", "latency + 0 * queue + cpu", policy.AverageValueTarget, failed, items(900), 4, "connection refused"},
		{"division by zero", "queue / latency + cpu", policy.AverageValueTarget, items(100), items(0), 4, "no change: the formula queue / latency + cpu failed: division by zero"},
		{"not a number", "(0 - queue - 1) ** 0.5 + latency + cpu", policy.AverageValueTarget, items(9), items(1), 4, "the result is NaN"},
		{"a negative result", "latency - queue - cpu", policy.AverageValueTarget, items(9), items(1), 4, "cpu failed: the result is negative"},
		{"a partial input does not scale down", all, policy.AverageValueTarget, partial, items(1), 4, "a partial result does not scale down: a store failed"},
	} {
		spec, o := formulaSpec(test.formula, test.kind), formulaOf(test.queue, test.latency)
		if mistakes := policy.Validate(spec, false); len(mistakes) > 0 {
			t.Errorf("%s: %v", test.name, mistakes)
		}
		d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
		if d.DesiredReplicas != test.want || !strings.Contains(d.Message, test.message) {
			t.Errorf("%s: %d replicas, want %d: %s, want %q", test.name, d.DesiredReplicas, test.want, d.Message, test.message)
		}
		if failed := test.want == 4 && test.message != "no change"; failed != (d.Case == policy.CaseMetricsFailed) {
			t.Errorf("%s: case %s", test.name, d.Case)
		}
		checkReplay(t, policy.Inputs{Settings: benchSettings, Spec: spec, Observation: o, Now: start}, d)
		policy.LookAhead(benchSettings, spec, d.Memory, d.Status, d, d.CurrentReplicas)
	}
}

// TestCompile checks that a compiled formula changes the cost of a decision, and nothing else.
func TestCompile(t *testing.T) {
	plain, o := formulaSpec("queue + latency + cpu", policy.AverageValueTarget), formulaOf(items(100), items(10))
	compiled := plain
	compiled.Metrics = policy.Compile(plain.Metrics)
	if plain.Metrics[3].Compiled != nil || compiled.Metrics[3].Compiled == nil {
		t.Fatalf("compiled: %v in the argument, %v in the result", plain.Metrics[3].Compiled, compiled.Metrics[3].Compiled)
	}
	decide := func(spec policy.Spec) policy.Decision {
		return policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
	}
	if diff := gocmp.Diff(decide(plain).Explained(), decide(compiled).Explained()); diff != "" {
		t.Errorf("decisions (-plain +compiled):\n%s", diff)
	}
	parsing, compiling := testing.AllocsPerRun(20, func() { decide(plain) }), testing.AllocsPerRun(20, func() { decide(compiled) })
	if compiling*3 > parsing {
		t.Errorf("%v allocations with a compiled formula, %v without", compiling, parsing)
	}
}

func BenchmarkFormula(b *testing.B) {
	spec, o := formulaSpec("0.7 * queue + 0.3 * latency + cpu", policy.AverageValueTarget), formulaOf(items(100), items(10))
	for name, metrics := range map[string][]policy.MetricSpec{"plain": spec.Metrics, "compiled": policy.Compile(spec.Metrics)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			spec.Metrics = metrics
			for b.Loop() {
				policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
			}
		})
	}
}

// TestFormulaOnMissing checks that the fallbacks of missing inputs replace the formula.
func TestFormulaOnMissing(t *testing.T) {
	spec := formulaSpec("queue + latency + cpu", policy.AverageValueTarget)
	missing := onMissing(policy.UseReplicas, 6)
	spec.Metrics[0].OnMissing = &missing
	memory, status, now := policy.Memory{}, policy.Status{}, start
	for i, want := range []struct {
		queue, latency policy.Reading
		replicas       int32
		reason         policy.RescaleReason
	}{
		{failed, items(1), 4, policy.NoReason},
		{failed, items(1), 4, policy.NoReason},
		{failed, items(1), 4, policy.NoReason},
		{failed, items(1), 6, policy.MetricMissing},        // 45 s
		{failed, failed, 6, policy.MetricMissing},          // R47: the fallback may only raise the count
		{items(20), items(1), 7, policy.MetricAboveTarget}, // the cpu is 40
	} {
		d := policy.Decide(benchSettings, spec, memory, status, formulaOf(want.queue, want.latency), now)
		if d.DesiredReplicas != want.replicas || d.Reason != want.reason {
			t.Errorf("pass %d: %d replicas for %q, want %d for %q: %s", i, d.DesiredReplicas, d.Reason, want.replicas, want.reason, d.Message)
		}
		s := policy.Settle(d, policy.Outcome{}, now)
		memory, status, now = s.Memory, s.Status, now.Add(15*time.Second)
	}
	low := onMissing(policy.UseReplicas, 2)
	spec.Metrics[0].OnMissing = &low
	if d := policy.Decide(benchSettings, spec, memory, status, formulaOf(failed, failed), now.Add(time.Hour)); d.DesiredReplicas != 4 {
		t.Errorf("%d replicas with an input that fails without on_missing, want 4", d.DesiredReplicas)
	}
}

func TestFormulaValidation(t *testing.T) {
	for text, want := range map[string]string{
		"queue + latency + cpu + other": `there is no metric "other"; the metrics are queue, latency, cpu`,
		"min":                           `must be "max" or a formula of the metrics; the metrics are queue, latency, cpu`,
		"queue + latency":               "does not use the metric cpu",
		"queue / 0 + latency + cpu":     "divides by zero (0)",
	} {
		got := policy.Validate(formulaSpec(text, policy.ValueTarget), false)
		if len(got) != 1 || got[0].Field != "metrics[3].formula" || !strings.Contains(got[0].Detail, want) {
			t.Errorf("%s: %v, want %q", text, got, want)
		}
	}
	spec := formulaSpec("queue + latency + cpu", policy.ValueTarget)
	spec.MinReplicas = new(int32(0))
	if got := policy.Validate(spec, true); len(got) != 1 || got[0].Field != "metrics" {
		t.Errorf("a formula that cannot be read without instances: %v", got)
	}
	spec.Metrics[1].Name = "latency-p99"
	spec.Metrics[3].Formula = "queue + latency-p99 + cpu"
	if got := policy.Validate(spec, true); len(got) != 2 || !strings.Contains(got[1].Detail, `no metric "latency"; names in a formula consist of letters`) {
		t.Errorf("a name that is not valid in a formula: %v", got)
	}
	spec.Metrics[1].Name, spec.Metrics[3].Formula = "formula", "queue + formula + cpu"
	if got := policy.Validate(spec, true); len(got) != 2 || got[1].Field != "metrics[1].name" {
		t.Errorf("a metric with the name of the formula: %v", got)
	}
	spec.Metrics[1].Name, spec.Metrics[3].Formula = "queue", "queue + cpu"
	if got := policy.Validate(spec, true); len(got) != 2 || !strings.Contains(got[1].Detail, "several metrics") {
		t.Errorf("two metrics with the same name: %v", got)
	}
}
