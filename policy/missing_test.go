package policy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

type passes struct {
	spec    policy.Spec
	memory  policy.Memory
	status  policy.Status
	now     time.Time
	current int32
	events  []policy.Event
}

func (p *passes) pass(readings ...policy.Reading) policy.Decision {
	o := policy.Observation{SpecReplicas: p.current, StatusReplicas: p.current, Metrics: readings}
	d := policy.Decide(benchSettings, p.spec, p.memory, p.status, o, p.now)
	outcome := policy.Outcome{}
	if d.Write {
		outcome = policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}
		p.current = d.DesiredReplicas
	}
	s := policy.Settle(d, outcome, p.now)
	p.memory, p.status, p.events = s.Memory, s.Status, append(p.events, s.Events...)
	p.now = p.now.Add(15 * time.Second)
	return d
}

func (p *passes) eventsWith(reason string) (n int) {
	for _, event := range p.events {
		if event.Reason == reason {
			n++
		}
	}
	return n
}

var failed = policy.Reading{Error: "connection refused"}

func items(n int64) policy.Reading { return policy.Reading{ValuesMilli: []int64{n * 1000}} }

func missingQueue(name string, missing policy.OnMissing) policy.MetricSpec {
	metric := queueMetric(1000)
	metric.Name, metric.OnMissing = name, &missing
	return metric
}

func onMissing(use policy.MissingUse, replicas int32) policy.OnMissing {
	return policy.OnMissing{AfterSeconds: 45, Use: use, Replicas: replicas}
}

// TestOnMissing checks which count each Use value proposes and when the fallback starts. The
// fallback must end with the first successful reading.
func TestOnMissing(t *testing.T) {
	for _, c := range []struct {
		use      policy.MissingUse
		replicas int32
		want     int32
		reason   policy.RescaleReason
	}{
		{policy.UseHold, 0, 6, policy.NoReason},
		{policy.UseLast, 0, 6, policy.NoReason},
		{policy.UseMax, 0, 50, policy.MetricMissing},
		{policy.UseReplicas, 9, 9, policy.MetricMissing},
		{policy.UseReplicas, 4, 4, policy.MetricMissing},
	} {
		t.Run(fmt.Sprint(c.use, c.replicas), func(t *testing.T) {
			spec := queueSpec(2, 50)
			spec.Metrics = []policy.MetricSpec{missingQueue("queue", onMissing(c.use, c.replicas))}
			spec.Behavior.ScaleUp.Policies = []policy.ScalingPolicy{{Type: policy.InstancesPolicy, Value: 100, PeriodSeconds: 15}}
			p := &passes{spec: spec, now: start, current: 6}
			p.pass(items(6))
			first := p.now
			for range 3 {
				d := p.pass(failed)
				if d.Case != policy.CaseMetricsFailed || d.Write || !d.Status.Metrics[0].FirstFailureTime.Equal(first) || d.Metrics[0].Fallback.Active {
					t.Fatalf("%s: %s, %+v", d.Time.Sub(first), d.Case, d.Metrics[0])
				}
			}
			if eventsWith := p.eventsWith("ExternalMetricFallbackActive"); eventsWith != 0 {
				t.Errorf("%d events before the fallback, want 0", eventsWith)
			}
			d := p.pass(failed)
			if d.Case != policy.CaseMetrics || d.DesiredReplicas != c.want || d.Reason != c.reason || d.Metrics[0].Error != failed.Error || !strings.Contains(d.Error, failed.Error) {
				t.Fatalf("desired replicas = %d by %s, %q, error %q, want %d", d.DesiredReplicas, d.Case, d.Reason, d.Error, c.want)
			}
			if *d.Recommendation != c.want || p.memory.Recommendations[len(p.memory.Recommendations)-1].Replicas != c.want {
				t.Errorf("recommendation %d, but stored recommendations are %v", *d.Recommendation, p.memory.Recommendations)
			}
			p.pass(failed)
			active := condition(t, p.status, policy.ExternalMetricFallbackActive)
			if active.Status != policy.ConditionTrue || !active.Since.Equal(first.Add(45*time.Second)) || !strings.Contains(active.Message, failed.Error) {
				t.Errorf("%+v", active)
			}
			if scaling := condition(t, p.status, policy.ScalingActive); scaling.Status != policy.ConditionTrue || scaling.Reason != "MetricMissing" {
				t.Errorf("%+v", scaling)
			}
			d = p.pass(items(int64(p.current)))
			active = condition(t, p.status, policy.ExternalMetricFallbackActive)
			if d.Error != "" || active.Status != policy.ConditionFalse || !p.memory.Missing[0].FirstFailureTime.IsZero() || !p.status.Metrics[0].FirstFailureTime.IsZero() {
				t.Errorf("after a successful reading: error %q, %+v, %+v, %+v", d.Error, active, p.memory.Missing, p.status.Metrics)
			}
			if began, over := p.eventsWith("ExternalMetricFallbackActive"), p.eventsWith("MetricFound"); began != 1 || over != 1 {
				t.Errorf("got %d events for the start and %d for the end of the fallback, want 1 and 1", began, over)
			}
			if d = p.pass(failed); d.Case != policy.CaseMetricsFailed {
				t.Errorf("second failure: %s", d.Case)
			}
		})
	}
}

func TestLastProposal(t *testing.T) {
	spec := queueSpec(2, 50)
	spec.Metrics = []policy.MetricSpec{missingQueue("queue", onMissing(policy.UseLast, 0)), queueMetric(1000)}
	p := &passes{spec: spec, now: start, current: 6}
	for range 5 {
		if d := p.pass(failed, items(5)); d.Write || d.Case != policy.CaseMetricsFailed || d.Metrics[0].Fallback.Replicas != nil {
			t.Fatalf("no state is stored for the metric: %+v", d)
		}
	}
	p.pass(items(4), items(8))
	for range 3 {
		if d := p.pass(failed, items(5)); d.Write {
			t.Fatalf("%+v", d)
		}
	}
	if d := p.pass(failed, items(3)); d.DesiredReplicas != 4 || !d.Write {
		t.Errorf("desired replicas = %d, want the last proposal of 4: %s", d.DesiredReplicas, d.Message)
	}
	if d := p.pass(failed, items(7)); d.DesiredReplicas != 7 {
		t.Errorf("desired replicas = %d, want 7 from the other metric", d.DesiredReplicas)
	}
	if d := p.pass(failed, failed); d.Case != policy.CaseMetricsFailed { // R47: the proposal 4 is below 7, and the other metric failed
		t.Errorf("%s, %d", d.Case, d.DesiredReplicas)
	}
}

func TestOnMissingFromZero(t *testing.T) {
	zero := int32(0)
	cpu := cpuUtilization(50)
	cpu.OnMissing = &policy.OnMissing{AfterSeconds: 45, Use: policy.UseMax}
	spec := queueSpec(0, 50)
	spec.MinReplicas = &zero
	spec.Metrics = []policy.MetricSpec{missingQueue("queue", onMissing(policy.UseReplicas, 3)), cpu}
	none := policy.Reading{Error: "the target has no instances"}
	own := policy.Status{Conditions: []policy.Condition{{Type: policy.ScaledToZero, Status: policy.ConditionTrue, Since: start}}}
	p := &passes{spec: spec, now: start, status: own}
	for range 10 {
		if d := p.pass(items(0), none); d.Write || d.Metrics[1].Fallback != nil {
			t.Fatalf("desired replicas from zero = %d: %s, %+v", d.DesiredReplicas, d.Message, d.Metrics[1])
		}
	}
	for range 3 {
		p.pass(failed, none)
	}
	if d := p.pass(failed, none); d.DesiredReplicas != 3 || !d.Write || d.Reason != policy.MetricMissing {
		t.Errorf("%d, %s", d.DesiredReplicas, d.Message)
	}
	p = &passes{spec: spec, now: start, current: 1}
	for range 4 {
		p.pass(failed, none)
	}
	p.current, p.status.Conditions = 0, slices.DeleteFunc(p.status.Conditions, func(c policy.Condition) bool { return c.Type == policy.ScaledToZero })
	if d := p.pass(failed, none); d.Case != policy.CaseDisabled || len(d.Memory.Missing) != 0 || condition(t, d.Status, policy.ExternalMetricFallbackActive).Status != policy.ConditionFalse {
		t.Errorf("%s, %+v", d.Case, d.Memory.Missing)
	}
	p.current = 1
	if d := p.pass(failed, none); d.Metrics[0].Fallback.Active {
		t.Errorf("fallback immediately after a manual zero = %+v", d.Metrics[0].Fallback)
	}
}

// drawMissing sets OnMissing for random metrics of w and makes some of them fail, starting at an
// arbitrary time.
func drawMissing(t *rapid.T, w *world) {
	w.Spec.Metrics = slices.Clone(w.Spec.Metrics)
	for i := range w.Spec.Metrics {
		metric := &w.Spec.Metrics[i]
		metric.Name = fmt.Sprint(metric.Name, i)
		if chance(t, 4, "no on_missing") {
			continue
		}
		uses := []policy.MissingUse{policy.UseHold, policy.UseLast, policy.UseMax, policy.UseReplicas}
		missing := policy.OnMissing{AfterSeconds: 60, Use: rapid.SampledFrom(uses).Draw(t, "use")}
		if missing.Use == policy.UseReplicas {
			missing.Replicas = rapid.Int32Range(1, w.Spec.MaxReplicas).Draw(t, "replicas")
		}
		metric.OnMissing = &missing
		known := policy.MissingMetric{Type: metric.Type, Name: metric.Name, Task: metric.Task, Object: metric.Object}
		if !chance(t, 5, "never failed") {
			known.FirstFailureTime = drawBefore(t, w.Now, "failing since")
		}
		if missing.Use == policy.UseLast && rapid.Bool().Draw(t, "last proposal") {
			known.Proposal = new(rapid.Int32Range(0, 80).Draw(t, "proposed"))
		}
		w.Memory.Missing = append(w.Memory.Missing, known)
		if rapid.Bool().Draw(t, "fails") {
			w.Observation.Metrics[i] = failed
		}
	}
}

func TestOnMissingProperties(t *testing.T) {
	counted := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		drawMissing(t, w)
		if !chance(t, 4, "anywhere") {
			w.Observation.ReadError, w.Observation.SpecReplicas = "", rapid.Int32Range(*w.Spec.MinReplicas, w.Spec.MaxReplicas).Draw(t, "in bounds")
		}
		before := w.text(t)
		d := w.decide()
		if after := w.text(t); before != after {
			t.Fatalf("the arguments were modified:\n%s\n%s", before, after)
		}
		w.next(d)
		checkMemory(t, w, d.Memory, d.Case != policy.CaseUnreadable)

		without := *w
		without.Spec.Metrics = slices.Clone(w.Spec.Metrics)
		for i := range without.Spec.Metrics {
			without.Spec.Metrics[i].OnMissing = nil
		}
		forgetful := without
		forgetful.Memory.Missing = nil
		plain := forgetful.decide()
		if d := without.decide(); !reflect.DeepEqual(d.Explained(), plain.Explained()) || !reflect.DeepEqual(d.Status, plain.Status) {
			t.Fatalf("stored state changes a decision without on_missing:\n%+v\n%+v", d, plain)
		}
		active := slices.ContainsFunc(d.Metrics, func(r policy.MetricResult) bool { return r.FallsBack() })
		if !active {
			counted["not active"]++
			if d.DesiredReplicas != plain.DesiredReplicas || d.Message != plain.Message || d.Error != plain.Error || !reflect.DeepEqual(d.Raw, plain.Raw) {
				t.Fatalf("with on_missing: %d (%s), without: %d (%s)", d.DesiredReplicas, d.Message, plain.DesiredReplicas, plain.Message)
			}
			return
		}
		counted["active"]++
		for i := range d.Metrics {
			result, known := &d.Metrics[i], w.Spec.Metrics[i].OnMissing
			switch {
			case d.Raw == nil:
			case result.Proposes() && *d.Raw < result.Proposal:
				t.Fatalf("proposal %d is below proposal %d of metric %d", *d.Raw, result.Proposal, i)
			case !result.Proposes() && *d.Raw < d.CurrentReplicas: // R47
				t.Fatalf("proposal %d is below the current count %d although metric %d failed", *d.Raw, d.CurrentReplicas, i)
			}
			if result.FallsBack() && (known == nil || result.Error == "" || w.Now.Sub(result.Fallback.FirstFailureTime) < time.Minute) {
				t.Fatalf("metric %d must not fall back: %+v", i, result)
			}
		}
		if plain.Raw != nil && d.Raw != nil && *d.Raw < *plain.Raw {
			t.Fatalf("proposal %d is below the %d that the other metrics recommend", *d.Raw, *plain.Raw)
		}
		if plain.Raw != nil && (d.Raw == nil || d.DesiredReplicas < plain.DesiredReplicas) {
			t.Fatalf("with on_missing: %d (%s), without: %d (%s)", d.DesiredReplicas, d.Message, plain.DesiredReplicas, plain.Message)
		}
		settled := policy.Settle(d, policy.Outcome{}, w.Now)
		if len(settled.Memory.Missing) != len(w.Memory.Missing) {
			t.Fatalf("stored state %+v became %+v", w.Memory.Missing, settled.Memory.Missing)
		}
	})
	if counted["active"] < 300 || counted["not active"] < 300 {
		t.Errorf("%v: too few cases", counted)
	}
}
