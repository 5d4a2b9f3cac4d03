package policy_test

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hpad/hpad/policy"
)

func queueSpec(least, most int32) policy.Spec {
	return policy.Default(policy.Spec{
		MinReplicas: &least, MaxReplicas: most, Metrics: []policy.MetricSpec{queueMetric(1000)},
		Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(0))}},
	})
}

func condition(t *testing.T, status policy.Status, kind policy.ConditionType) policy.Condition {
	t.Helper()
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("no condition %s in %+v", kind, status.Conditions)
	return policy.Condition{}
}

func TestPlatformBounds(t *testing.T) {
	for _, test := range []struct {
		name        string
		current     int32
		queue       int64
		least, most *int32
		want        int32
		reason      string // in the condition ScalingLimited
	}{
		{"the maximum limits a scale-up", 4, 8000, nil, new(int32(6)), 6, "PlatformMax"},
		{"the maximum prevents a scale-up", 4, 8000, nil, new(int32(4)), 4, "PlatformMax"},
		{"a maximum below the count does not scale down", 4, 8000, nil, new(int32(2)), 4, "PlatformMax"},
		{"the maximum alone causes no change", 4, 4000, nil, new(int32(2)), 4, "DesiredWithinRange"},
		{"the minimum limits a scale-down", 8, 2000, new(int32(5)), nil, 5, "PlatformMin"},
		{"a minimum above the count does not scale up", 8, 2000, new(int32(10)), nil, 8, "PlatformMin"},
		{"the minimum alone causes no change", 4, 4000, new(int32(6)), nil, 4, "DesiredWithinRange"},
		{"the minimum does not increase a scale-up", 4, 8000, new(int32(20)), nil, 8, "DesiredWithinRange"},
		{"from above max_replicas to the platform's minimum", 60, 0, new(int32(55)), nil, 55, "PlatformMin"},
		{"from below min_replicas to the platform's maximum", 1, 9000, nil, new(int32(1)), 1, "PlatformMax"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := queueOf(test.current, test.current, test.queue)
			o.PlatformMin, o.PlatformMax = test.least, test.most
			d := policy.Decide(benchSettings, queueSpec(2, 50), policy.Memory{}, policy.Status{}, o, start)
			if d.DesiredReplicas != test.want || d.Write != (test.want != test.current) {
				t.Errorf("desired replicas = %d (write %v), want %d", d.DesiredReplicas, d.Write, test.want)
			}
			limited := condition(t, policy.Settle(d, policy.Outcome{}, start).Status, policy.ScalingLimited)
			if limited.Reason != test.reason || (limited.Status == policy.ConditionTrue) != (d.PlatformBound != nil) {
				t.Errorf("condition = %+v, bound = %+v, want reason %s", limited, d.PlatformBound, test.reason)
			}
		})
	}
}

func TestInitialReplicas(t *testing.T) {
	for _, test := range []struct {
		name        string
		initial     *int32
		least, most int32
		never, hold bool
		want        policy.Case
		replicas    int32
	}{
		{"without the key", nil, 2, 50, true, false, policy.CaseDisabled, 0},
		{"a target that was started", new(int32(3)), 2, 50, false, false, policy.CaseDisabled, 0},
		{"the initial count", new(int32(3)), 2, 50, true, false, policy.CaseNeverStarted, 3},
		{"min_replicas is higher", new(int32(0)), 2, 50, true, false, policy.CaseNeverStarted, 2},
		{"a schedule lowers max_replicas", new(int32(3)), 1, 2, true, false, policy.CaseNeverStarted, 2},
		{"a schedule stops the target", new(int32(3)), 0, 0, true, false, policy.CaseStopped, 0},
		{"the platform holds the target", new(int32(3)), 2, 50, true, true, policy.CaseNeverStarted, 3},
		{"the metrics decide", new(int32(0)), 0, 50, true, false, policy.CaseMetrics, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := queueSpec(test.least, test.most)
			spec.InitialReplicas = test.initial
			o := queueOf(0, 0, 4000)
			o.NeverStarted = test.never
			if test.hold {
				o.Hold = &policy.Hold{Reason: "DeploymentActive", Message: "busy"}
			}
			d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
			if d.Case != test.want || d.DesiredReplicas != test.replicas || d.Write != (test.replicas > 0 && !test.hold) {
				t.Errorf("case = %s, desired replicas = %d (write %v), want %s, %d", d.Case, d.DesiredReplicas, d.Write, test.want, test.replicas)
			}
		})
	}
}

// TestFinite checks targets whose instances end by themselves.
func TestFinite(t *testing.T) {
	for _, test := range []struct {
		name           string
		least, current int32
		queue          int64
		earlier        int32
		want           int32
		kind           policy.Case
	}{
		{"all instances have ended", 0, 0, 4000, 0, 4, policy.CaseMetrics},
		{"no work", 0, 0, 0, 0, 0, policy.CaseMetrics},
		{"fewer than min, none left", 2, 0, 4000, 0, 2, policy.CaseBelowMin},
		{"more than max", 0, 60, 0, 0, 60, policy.CaseAboveMax},
		{"less work", 0, 5, 2000, 0, 5, policy.CaseMetrics},
		{"ended instances are not replaced because of earlier load", 0, 3, 1000, 10, 3, policy.CaseMetrics},
		{"ended instances are replaced because of present load", 0, 3, 6000, 10, 6, policy.CaseMetrics},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := queueSpec(test.least, 50)
			spec.Behavior = nil
			o := queueOf(test.current, test.current, test.queue)
			o.Finite, o.PlatformMin = true, &test.current
			memory := policy.Memory{Recommendations: []policy.Recommendation{{Replicas: test.earlier, Time: start.Add(-time.Minute)}}}
			d := policy.Decide(benchSettings, spec, memory, policy.Status{}, o, start)
			if d.Case != test.kind || d.DesiredReplicas != test.want || d.Write != (test.want != test.current) {
				t.Errorf("case = %s, desired replicas = %d (write %v), want %s, %d", d.Case, d.DesiredReplicas, d.Write, test.kind, test.want)
			}
		})
	}
}

func TestHold(t *testing.T) {
	hold := &policy.Hold{Reason: "RolloutInProgress", Message: "a rollout of version 7 is in progress"}
	memory, status := policy.Memory{}, policy.Status{}
	for i := range 3 {
		now := start.Add(time.Duration(i) * 15 * time.Second)
		o := queueOf(4, 4, 8000)
		o.Hold = hold
		d := policy.Decide(benchSettings, queueSpec(2, 50), memory, status, o, now)
		if d.Write || d.DesiredReplicas != 8 || d.Hold == nil || d.Hold == hold || d.Error != "" {
			t.Fatalf("Write = %v, DesiredReplicas = %d, Hold = %v, error = %q", d.Write, d.DesiredReplicas, d.Hold, d.Error)
		}
		s := policy.Settle(d, policy.Outcome{}, now)
		able := condition(t, s.Status, policy.AbleToScale)
		if able.Status != policy.ConditionFalse || able.Reason != hold.Reason || able.Message != hold.Message || !able.Since.Equal(start) {
			t.Fatalf("round %d: AbleToScale = %+v", i, able)
		}
		if s.Error != "" || len(s.Memory.ScaleUpEvents) > 0 || s.Status.DesiredReplicas != 4 {
			t.Fatalf("round %d: settlement = %+v", i, s)
		}
		wantOneEvent(t, i, s.Events, policy.Event{Kind: policy.NormalEvent, Reason: hold.Reason, Message: hold.Message})
		if last := s.Memory.Recommendations[len(s.Memory.Recommendations)-1]; last.Replicas != 8 || !last.Time.Equal(now) {
			t.Fatalf("round %d: the recommendation is not stored: %+v", i, s.Memory)
		}
		memory, status = s.Memory, s.Status
	}
	d := policy.Decide(benchSettings, queueSpec(2, 50), memory, status, queueOf(4, 4, 8000), start.Add(time.Minute))
	able := condition(t, d.Status, policy.AbleToScale)
	if !d.Write || able.Status != policy.ConditionTrue || !able.Since.Equal(start.Add(time.Minute)) {
		t.Errorf("after the hold: Write = %v, AbleToScale = %+v", d.Write, able)
	}
}

func wantOneEvent(t *testing.T, round int, events []policy.Event, event policy.Event) {
	t.Helper()
	var want []policy.Event
	if round == 0 {
		want = []policy.Event{event}
	}
	if diff := gocmp.Diff(want, events, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("round %d: events (-want +got):\n%s", round, diff)
	}
}

func TestWriteHeld(t *testing.T) {
	memory, status := policy.Memory{}, policy.Status{}
	for i := range 3 {
		now := start.Add(time.Duration(i) * 15 * time.Second)
		d := policy.Decide(benchSettings, queueSpec(2, 50), memory, status, queueOf(4, 4, 8000), now)
		s := policy.Settle(d, policy.Outcome{Kind: policy.WriteHeld, Hold: &policy.Hold{Reason: "DeploymentActive", Message: "busy"}}, now)
		able := condition(t, s.Status, policy.AbleToScale)
		if able.Status != policy.ConditionFalse || able.Reason != "DeploymentActive" || !able.Since.Equal(start) {
			t.Fatalf("round %d: AbleToScale = %+v", i, able)
		}
		if s.Error != "" || len(s.Memory.ScaleUpEvents) > 0 || s.Status.DesiredReplicas != 4 || !s.Status.LastScaleTime.IsZero() {
			t.Fatalf("round %d: settlement = %+v", i, s)
		}
		wantOneEvent(t, i, s.Events, policy.Event{Kind: policy.NormalEvent, Reason: "DeploymentActive", Message: "busy"})
		memory, status = s.Memory, s.Status
	}
}

func TestSettlePartialWrite(t *testing.T) {
	d := policy.Decide(benchSettings, queueSpec(2, 50), policy.Memory{}, policy.Status{}, queueOf(4, 4, 8000), start)
	s := policy.Settle(d, policy.Outcome{Kind: policy.Written, Reached: 6, Error: "no free port"}, start)
	if diff := gocmp.Diff([]policy.ScaleEvent{{Change: 2, Time: start}}, s.Memory.ScaleUpEvents); diff != "" { // R73
		t.Errorf("scale events (-want +got):\n%s", diff)
	}
	if s.Status.DesiredReplicas != 6 || s.Error != "no free port" {
		t.Errorf("DesiredReplicas = %d, error = %q", s.Status.DesiredReplicas, s.Error)
	}
	if last := s.Events[len(s.Events)-1]; last.Reason != "SuccessfulRescale" || !strings.HasSuffix(last.Message, "; only 6 could be reached") {
		t.Errorf("last event = %+v", last)
	}
}

func TestSettleLate(t *testing.T) {
	settings := benchSettings
	spec := policy.Default(policy.Spec{
		MinReplicas: new(int32(0)), MaxReplicas: 50, Metrics: []policy.MetricSpec{queueMetric(1000)},
		Behavior: &policy.Behavior{ScaleDown: &policy.ScalingRules{StabilizationWindowSeconds: new(int32(0))}},
	})
	old := policy.Memory{ScaleDownEvents: []policy.ScaleEvent{{Change: 3, Time: start.Add(-time.Hour)}}}
	for _, queue := range []int64{8000, 2000, 0} { // 0 scales to zero (R72)
		d := policy.Decide(settings, spec, old, policy.Status{}, queueOf(4, 4, queue), start)
		if !d.Write {
			t.Fatalf("queue %d: Write = false, want true", queue)
		}
		immediate := policy.Settle(d, policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}, start)
		lost := policy.Settle(d, policy.Outcome{Kind: policy.WriteFailed, Error: "timeout"}, start)
		now := start.Add(15 * time.Second)
		intention := policy.Intention{From: 4, To: d.DesiredReplicas, Time: start, Reason: d.Reason, Message: d.Message}
		late := policy.SettleLate(settings, spec, lost.Memory, lost.Status, intention, intention.To, now)
		if diff := gocmp.Diff(immediate.Memory, late.Memory); diff != "" {
			t.Errorf("queue %d: memory (-immediate +late):\n%s", queue, diff)
		}
		if diff := gocmp.Diff(immediate.Events, late.Events); diff != "" {
			t.Errorf("queue %d: events (-immediate +late):\n%s", queue, diff)
		}
		if !late.Status.LastScaleTime.Equal(start) || late.Status.DesiredReplicas != d.DesiredReplicas || !late.StatusChanged || late.Error != "" {
			t.Errorf("queue %d: settlement = %+v", queue, late)
		}
		if able := condition(t, late.Status, policy.AbleToScale); able.Status != policy.ConditionTrue || !able.Since.Equal(now) {
			t.Errorf("queue %d: AbleToScale = %+v", queue, able)
		}
		if zero := condition(t, late.Status, policy.ScaledToZero); (zero.Status == policy.ConditionTrue) != (queue == 0) {
			t.Errorf("queue %d: ScaledToZero = %+v", queue, zero)
		}
		if able := condition(t, lost.Status, policy.AbleToScale); able.Reason != "FailedUpdateScale" {
			t.Errorf("queue %d: SettleLate modified its argument: %+v", queue, able)
		}
	}
}

func TestWholeInstanceRequests(t *testing.T) {
	half := policy.Amount{Resource: "cpu", Milli: 2, RoundedUpNano: 500_000} // 1.5 milli
	for _, test := range []struct {
		name  string
		whole []policy.Amount
		used  int64
		want  int32 // percent
	}{
		{"requests of tasks are rounded separately", nil, 4, 100},
		{"the instance requests this resource", []policy.Amount{{Resource: "cpu", Milli: 8}}, 4, 50},
		{"the instance requests another resource", []policy.Amount{{Resource: "memory", Milli: 1}}, 3, 100},
		{"a resource that only tasks can request", []policy.Amount{{Resource: "gpu", Milli: 1}}, 4, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			instances, samples := instancesWith(start, policy.ReadinessTrue, 0)
			instances[0].Tasks = []policy.Task{{Name: "a", Requests: []policy.Amount{half}}, {Name: "b", Requests: []policy.Amount{half}}}
			instances[0].Requests = test.whole
			samples[0].Milli = test.used
			o := policy.Observation{SpecReplicas: 1, StatusReplicas: 1, Instances: instances, Metrics: []policy.Reading{{Samples: samples}}}
			spec := policy.Default(policy.Spec{MaxReplicas: 9, Metrics: []policy.MetricSpec{cpuUtilization(80)}})
			m := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start).Metrics[0]
			if m.Error != "" || m.Current.AverageUtilization == nil || *m.Current.AverageUtilization != test.want {
				t.Errorf("utilization = %+v, error %q, want %d percent", m.Current.AverageUtilization, m.Error, test.want)
			}
		})
	}
}

func TestQuietStatusIsStable(t *testing.T) {
	memory, status := policy.Memory{}, policy.Status{}
	for i := range 30 {
		now := start.Add(time.Duration(i) * 15 * time.Second)
		s := policy.Settle(policy.Decide(benchSettings, queueSpec(2, 50), memory, status, queueOf(4, 4, 4000), now), policy.Outcome{}, now)
		if s.StatusChanged != (i == 0) {
			t.Fatalf("round %d: StatusChanged = %v", i, s.StatusChanged)
		}
		memory, status = s.Memory, s.Status
	}
}

func TestForeignChange(t *testing.T) {
	for _, test := range []struct {
		name        string
		from, found int32
		restore     bool
		which       policy.Case
		want        int32
	}{
		{"accepted", 5, 4, false, policy.CaseMetrics, 8},
		{"restored regardless of the metrics", 5, 4, true, policy.CaseRestored, 5},
		{"restored up to the current max", 60, 4, true, policy.CaseRestored, 50},
		{"restored in one step from above max", 5, 60, true, policy.CaseRestored, 5},
		{"restored in one step from below min", 5, 1, true, policy.CaseRestored, 5},
		{"above max and accepted (R25.4b)", 5, 60, false, policy.CaseAboveMax, 50},
		{"already at the restored count", 1, 2, true, policy.CaseMetrics, 6},
		{"a manual zero disables scaling (R51)", 5, 0, true, policy.CaseDisabled, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := queueOf(test.found, test.found, 20_000)
			o.Foreign = &policy.ForeignChange{From: test.from}
			if test.restore {
				o.Restore = &policy.Restoration{Replicas: test.from, Foreign: test.found, Since: start}
			}
			d := policy.Decide(benchSettings, queueSpec(2, 50), policy.Memory{}, policy.Status{}, o, start)
			if d.Case != test.which || d.DesiredReplicas != test.want {
				t.Errorf("decision = %s: %d, want %s: %d", d.Case, d.DesiredReplicas, test.which, test.want)
			}
			s := policy.Settle(d, policy.Outcome{}, start)
			if c := condition(t, s.Status, policy.ForeignWriter); c.Status != policy.ConditionTrue || c.Reason != "CountChanged" {
				t.Errorf("condition = %+v", c)
			}
			if len(s.Events) == 0 || s.Events[0].Reason != "ForeignWriter" {
				t.Errorf("events = %+v, want ForeignWriter first", s.Events)
			}
			if !d.Write {
				return
			}
			s = policy.Settle(d, policy.Outcome{Kind: policy.Written, Reached: test.want}, start)
			if c := condition(t, s.Status, policy.ForeignWriter); c.Status != policy.ConditionFalse || c.Reason != "Rescaled" {
				t.Errorf("condition after a write = %+v", c)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	ten := int32(10)
	for _, test := range []struct {
		name string
		edit func(o *policy.Observation)
		// pending reports whether the count still has to be restored after a pass without a write.
		pending bool
		which   policy.Case
		want    int32
		write   bool
	}{
		{"in a later pass", func(*policy.Observation) {}, true, policy.CaseRestored, 20, true},
		{"held", func(o *policy.Observation) { o.Hold = &policy.Hold{Reason: "Deploying"} }, true, policy.CaseRestored, 20, false},
		{"unreadable", func(o *policy.Observation) { *o = policy.Observation{ReadError: "timeout", Restore: o.Restore} }, true, policy.CaseUnreadable, 0, false},
		{"reached", func(o *policy.Observation) { o.SpecReplicas = 20 }, false, policy.CaseMetrics, 14, true},
		{"limited by the platform", func(o *policy.Observation) { o.PlatformMax = &ten }, true, policy.CaseRestored, 10, true},
		{"already at the platform's limit", func(o *policy.Observation) { o.SpecReplicas, o.PlatformMax = 10, &ten }, false, policy.CaseMetrics, 10, false},
		{"scaling disabled (R51)", func(o *policy.Observation) { o.SpecReplicas = 0 }, false, policy.CaseDisabled, 0, false},
		{"metrics failed", func(o *policy.Observation) { o.Metrics = []policy.Reading{{Error: "timeout"}} }, true, policy.CaseRestored, 20, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := queueOf(1, 1, 14_000)
			o.Restore = &policy.Restoration{Replicas: 20, Foreign: 1, Since: start.Add(-time.Hour)}
			test.edit(&o)
			spec := queueSpec(1, 50)
			d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
			if d.Case != test.which || d.DesiredReplicas != test.want || d.Write != test.write {
				t.Errorf("decision = %s: %d, write %v; want %s: %d, write %v", d.Case, d.DesiredReplicas, d.Write, test.which, test.want, test.write)
			}
			if got := d.Restore != nil; got != test.pending {
				t.Errorf("Restore = %+v, want set: %v", d.Restore, test.pending)
			}
		})
	}
}

func TestReadReason(t *testing.T) {
	settled := func(memory policy.Memory, status policy.Status, o policy.Observation, now time.Time) policy.Settlement {
		return policy.Settle(policy.Decide(benchSettings, queueSpec(2, 50), memory, status, o, now), policy.Outcome{}, now)
	}
	read := settled(policy.Memory{}, policy.Status{}, queueOf(4, 4, 4000), start)
	memory, status := read.Memory, read.Status
	for round := range 3 {
		now := start.Add(time.Duration(round+1) * 15 * time.Second)
		s := settled(memory, status, policy.Observation{ReadError: "job not found", ReadReason: "JobNotFound"}, now)
		able := condition(t, s.Status, policy.AbleToScale)
		if able.Status != policy.ConditionFalse || able.Reason != "JobNotFound" || able.Message != "job not found" || !able.Since.Equal(start.Add(15*time.Second)) {
			t.Errorf("round %d: AbleToScale = %+v", round, able)
		}
		if active := condition(t, s.Status, policy.ScalingActive); active.Status != policy.ConditionTrue {
			t.Errorf("round %d: %+v, want it unchanged (R25.1)", round, active)
		}
		if s.Error != "job not found" || len(s.Events) != 0 && round > 0 || round == 0 && (len(s.Events) != 1 || s.Events[0].Reason != "JobNotFound") {
			t.Errorf("round %d: error = %q, events = %+v", round, s.Error, s.Events)
		}
		memory, status = s.Memory, s.Status
	}
	if diff := gocmp.Diff(read.Memory, memory); diff != "" {
		t.Errorf("memory (-before +after):\n%s", diff)
	}
	now := start.Add(time.Hour)
	s := settled(memory, status, policy.Observation{ReadError: "the job is a system job", ReadReason: "JobIsSystem", Unscalable: true}, now)
	if active := condition(t, s.Status, policy.ScalingActive); active.Status != policy.ConditionFalse || active.Reason != "JobIsSystem" || len(s.Events) != 1 {
		t.Errorf("ScalingActive = %+v, events = %+v", active, s.Events)
	}
	s = settled(s.Memory, s.Status, queueOf(4, 4, 4000), now.Add(15*time.Second))
	if active := condition(t, s.Status, policy.ScalingActive); active.Status != policy.ConditionTrue {
		t.Errorf("condition for a scalable target = %+v", active)
	}
}

func TestPartialResult(t *testing.T) {
	const warning = "store unavailable"
	total := func(milli int64, partial string) policy.Reading {
		return policy.Reading{ValuesMilli: []int64{milli}, Warnings: []string{warning}, Partial: partial}
	}
	for _, test := range []struct {
		name     string
		readings []policy.Reading
		want     int32
		failed   bool // whether the first metric fails
	}{
		{"down", []policy.Reading{total(1000, warning)}, 4, true},
		{"down to zero", []policy.Reading{total(0, warning)}, 4, true},
		{"the same", []policy.Reading{total(4000, warning)}, 4, false},
		{"up", []policy.Reading{total(6000, warning)}, 6, false},
		{"down with a complete result", []policy.Reading{total(1000, "")}, 1, false},
		{"down while the other metric scales up", []policy.Reading{total(1000, warning), total(6000, "")}, 6, true},
		{"down while the other metric scales down", []policy.Reading{total(1000, warning), total(2000, "")}, 4, true},
		{"up while the other metric scales down", []policy.Reading{total(6000, warning), total(2000, "")}, 6, false},
		{"down while the other metric fails", []policy.Reading{total(1000, warning), {Error: "timeout"}}, 4, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := queueSpec(0, 50)
			for range test.readings[1:] {
				spec.Metrics = append(spec.Metrics, queueMetric(1000))
			}
			o := queueOf(4, 4, 0)
			o.Metrics = test.readings
			d := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
			if d.DesiredReplicas != test.want || d.Write != (test.want != 4) {
				t.Errorf("desired replicas = %d (write %v), want %d: %s", d.DesiredReplicas, d.Write, test.want, d.Message)
			}
			result := d.Metrics[0]
			if failed := strings.Contains(result.Error, "a partial result does not scale down: "+warning); failed != test.failed || (result.Error != "") != test.failed {
				t.Errorf("error %q, want set: %v", result.Error, test.failed)
			}
			if result.Partial != test.readings[0].Partial || len(result.Warnings) != 1 {
				t.Errorf("partial %q and warnings %q differ from the reading", result.Partial, result.Warnings)
			}
			if test.readings[0].Partial != "" && test.name != "the same" && !strings.Contains(d.Message, warning) && d.Case == policy.CaseMetricsFailed {
				t.Errorf("message %q does not contain the warning", d.Message)
			}
		})
	}
}

// outageOf returns queueOf with one instance for each argument.
func outageOf(replicas int32, queue int64, instances ...policy.Instance) policy.Observation {
	o := queueOf(replicas, replicas, queue)
	o.Instances = instances
	return o
}

func TestOutage(t *testing.T) {
	settings := benchSettings
	settings.OutageHold = 10 * time.Minute
	ready := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue}
	unready := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessFalse}
	for _, test := range []struct {
		name      string
		instances []policy.Instance
		since     time.Duration // age of the outage before the pass; 0 if there is none
		queue     int64
		want      int32
	}{
		{"no instance is ready", []policy.Instance{unready, unready}, 0, 2000, 8},
		{"pending and failed instances", []policy.Instance{{Phase: policy.PhasePending, Readiness: policy.ReadinessFalse}, {Phase: policy.PhaseFailed, Readiness: policy.ReadinessFalse}}, 0, 2000, 8},
		{"instances of an unreachable node", []policy.Instance{{Phase: policy.PhaseUnknown, Readiness: policy.ReadinessUnknown}}, 0, 2000, 8},
		{"the only ready instance is being removed", []policy.Instance{unready, {Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, Deleting: true}}, 0, 2000, 8},
		{"before the end of the hold", []policy.Instance{unready}, 10*time.Minute - 1, 2000, 8},
		{"at the end of the hold", []policy.Instance{unready}, 10 * time.Minute, 2000, 2},
		{"the list of instances is empty during an outage", nil, time.Minute, 2000, 8},
		{"scale-ups are unaffected", []policy.Instance{unready}, time.Minute, 12_000, 12},
		{"one instance is ready", []policy.Instance{unready, ready}, time.Minute, 2000, 2},
		{"there is no list of instances", nil, 0, 2000, 2},
		{"the platform does not report readiness", []policy.Instance{{Phase: policy.PhaseRunning}, {Phase: policy.PhasePending}}, 0, 2000, 2},
		{"no instance of such a platform runs", []policy.Instance{{Phase: policy.PhasePending}}, 0, 2000, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var memory policy.Memory
			if test.since > 0 {
				memory.NoReadySince = start.Add(-test.since)
			}
			o := outageOf(8, test.queue, test.instances...)
			d := policy.Decide(settings, queueSpec(0, 50), memory, policy.Status{}, o, start)
			if d.DesiredReplicas != test.want || *d.Raw != int32(test.queue/1000) {
				t.Errorf("%d replicas for a proposal of %d, want %d: %s", d.DesiredReplicas, *d.Raw, test.want, d.Message)
			}
			limited := condition(t, d.Status, policy.ScalingLimited)
			if held := test.want == 8; held != (d.Outage != nil) || held != (limited.Reason == "NoReadyInstance") || held != strings.Contains(d.Message, "no instance is ready") {
				t.Errorf("outage %+v, condition %+v, message %q", d.Outage, limited, d.Message)
			}
			checkReplay(t, policy.Inputs{Settings: settings, Spec: queueSpec(0, 50), Memory: memory, Observation: o, Now: start}, d)
			for _, off := range []policy.Settings{benchSettings, {Tolerance: benchSettings.Tolerance, ScaleToZero: true}} {
				if d := policy.Decide(off, queueSpec(0, 50), memory, policy.Status{}, o, start); d.DesiredReplicas != int32(test.queue/1000) || !d.Memory.NoReadySince.IsZero() {
					t.Errorf("without outage_hold: %d replicas, want %d", d.DesiredReplicas, test.queue/1000)
				}
			}
		})
	}
}

// TestOutageInterplay runs passes every 15 seconds with a queue for 2 instances.
func TestOutageInterplay(t *testing.T) {
	unready := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessFalse}
	ready := policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue}
	settings := benchSettings
	settings.OutageHold, settings.DownscaleStabilization = 10*time.Minute, 5*time.Minute
	spec := policy.Default(policy.Spec{MinReplicas: new(int32(1)), MaxReplicas: 50, Metrics: []policy.MetricSpec{queueMetric(1000)}})
	shielded := policy.Default(policy.Spec{MinReplicas: new(int32(1)), MaxReplicas: 50, Metrics: []policy.MetricSpec{queueMetric(1000)}, Behavior: &policy.Behavior{}})
	lowered := spec
	lowered.MaxReplicas = 5
	for _, test := range []struct {
		name string
		spec policy.Spec
		edit func(pass int, settings *policy.Settings, o *policy.Observation)
		// firstLower is the first pass with a lower count.
		firstLower int
	}{
		{"the window starts with the end of the hold", spec, func(int, *policy.Settings, *policy.Observation) {}, 40 + 20},
		{"with a behavior", shielded, func(int, *policy.Settings, *policy.Observation) {}, 40 + 19},
		{"the window also covers the time after the outage", spec, func(pass int, _ *policy.Settings, o *policy.Observation) {
			if pass >= 8 {
				o.Instances = []policy.Instance{ready}
			}
		}, 8 + 20},
		{"a bound applies", lowered, func(int, *policy.Settings, *policy.Observation) {}, 0},
		{"a pause does not extend the hold", spec, func(pass int, _ *policy.Settings, o *policy.Observation) {
			if pass < 70 {
				o.Pauses = []policy.Pause{{Direction: policy.Down, Until: start.Add(70 * 15 * time.Second), Message: "paused"}}
			}
		}, 70},
		{"unreadable passes do not end the outage", spec, func(pass int, _ *policy.Settings, o *policy.Observation) {
			if pass%2 == 1 {
				*o = policy.Observation{ReadError: "timeout"}
			}
		}, 40 + 20},
		{"neither does the mode off", spec, func(pass int, s *policy.Settings, _ *policy.Observation) {
			if pass >= 10 && pass < 70 {
				s.Mode = policy.ModeOff
			}
		}, 70},
		{"a count set by hand is not raised again", spec, func(pass int, _ *policy.Settings, o *policy.Observation) {
			if pass >= 30 {
				o.SpecReplicas = 4
			}
		}, 40 + 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory, status := policy.Memory{}, policy.Status{}
			for pass := range 90 {
				now, settings := start.Add(time.Duration(pass)*15*time.Second), settings
				o := outageOf(8, 2000, unready, unready)
				test.edit(pass, &settings, &o)
				d := policy.Decide(settings, test.spec, memory, status, o, now)
				if d.Write && d.DesiredReplicas > d.CurrentReplicas {
					t.Fatalf("pass %d raises the count from %d to %d: %s", pass, d.CurrentReplicas, d.DesiredReplicas, d.Message)
				}
				if d.Write && pass != test.firstLower || !d.Write && pass == test.firstLower {
					t.Fatalf("pass %d: write %v to %d, want the first write in pass %d: %s", pass, d.Write, d.DesiredReplicas, test.firstLower, d.Message)
				}
				if next := policy.LookAhead(settings, test.spec, d.Memory, d.Status, d, d.CurrentReplicas); pass == 20 && d.Outage != nil {
					if want := start.Add(time.Duration(test.firstLower) * 15 * time.Second); next.At.Sub(want).Abs() > 15*time.Second {
						t.Errorf("the next change is expected at %s, want %s", next.At, want)
					}
				}
				if d.Write {
					return
				}
				s := policy.Settle(d, policy.Outcome{}, now)
				memory, status = s.Memory, s.Status
			}
		})
	}
}

// TestOutageAtZero checks that a start from 0 begins a new outage.
func TestOutageAtZero(t *testing.T) {
	settings := benchSettings
	settings.OutageHold = 10 * time.Minute
	memory := policy.Memory{NoReadySince: start.Add(-time.Hour)}
	d := policy.Decide(settings, queueSpec(0, 50), memory, policy.Status{}, outageOf(0, 2000, policy.Instance{Readiness: policy.ReadinessFalse, Deleting: true}), start)
	if !d.Memory.NoReadySince.IsZero() {
		t.Errorf("an outage at 0 replicas began at %s", d.Memory.NoReadySince)
	}
}

// TestScheduledStop checks that a stop by max_replicas = 0 counts as a stop by the autoscaler, also if
// its write is confirmed after the end of the window, and without an External metric.
func TestScheduledStop(t *testing.T) {
	now := time.Date(2026, 11, 28, 22, 0, 0, 0, time.UTC)
	settings := policy.Settings{ScaleToZero: true}
	spec := policy.Default(policy.Spec{MinReplicas: new(int32(0)), MaxReplicas: 0})
	open := policy.Default(policy.Spec{MinReplicas: new(int32(2)), MaxReplicas: 9})
	d := policy.Decide(settings, spec, policy.Memory{}, policy.Status{}, policy.Observation{SpecReplicas: 5, StatusReplicas: 5}, now)
	if d.Case != policy.CaseAboveMax || d.DesiredReplicas != 0 || !d.Write {
		t.Fatalf("decision %+v", d)
	}
	for _, s := range []policy.Settlement{
		policy.Settle(d, policy.Outcome{Kind: policy.Written}, now),
		policy.SettleLate(settings, open, d.Memory, d.Status, policy.Intention{From: 5, Time: now, Reason: d.Reason, Message: d.Message}, d.DesiredReplicas, now),
	} {
		stays := policy.Decide(settings, spec, s.Memory, s.Status, policy.Observation{}, now.Add(time.Minute))
		if stays.Case != policy.CaseStopped || stays.Write {
			t.Errorf("in the window: %+v", stays)
		}
		starts := policy.Decide(settings, open, s.Memory, s.Status, policy.Observation{}, now.Add(time.Hour))
		if starts.Case != policy.CaseBelowMin || starts.DesiredReplicas != 2 || !starts.Write {
			t.Errorf("after the window: %+v", starts)
		}
		started := policy.Settle(starts, policy.Outcome{Kind: policy.Written, Reached: 2}, now.Add(time.Hour))
		if manual := policy.Decide(settings, open, started.Memory, started.Status, policy.Observation{}, now.Add(2*time.Hour)); manual.Case != policy.CaseDisabled {
			t.Errorf("a manual 0 after the window: %+v", manual)
		}
	}
}
