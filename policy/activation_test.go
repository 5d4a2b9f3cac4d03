package policy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// checkReplay checks that the recorded inputs of a decision lead to the same decision.
func checkReplay(t *testing.T, in policy.Inputs, want policy.Decision) {
	t.Helper()
	var stored policy.Inputs
	text, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	got, gotErr := json.Marshal(stored.Decide())
	wanted, wantErr := json.Marshal(want)
	if err := errors.Join(err, gotErr, wantErr); err != nil || string(got) != string(wanted) {
		t.Errorf("replayed decision\n%s\nwant\n%s (%v)", got, wanted, err)
	}
}

// TestActivation scales to zero and checks the value that starts the first instance.
func TestActivation(t *testing.T) {
	settings := benchSettings
	settings.ScaleToZero = true
	for _, kind := range []policy.TargetType{policy.AverageValueTarget, policy.ValueTarget} {
		spec := queueSpec(0, 10)
		metric := &spec.Metrics[0]
		metric.ActivationMilli = new(int64(5000))
		metric.Target.Type = kind
		if kind == policy.ValueTarget {
			metric.Target.ValueMilli, metric.Target.AverageValueMilli = metric.Target.AverageValueMilli, nil
		}
		memory, status, current, now := policy.Memory{}, policy.Status{}, int32(1), start
		for i, step := range []struct {
			queue int64
			runs  bool
		}{
			{1, true}, // above 0 replicas, the activation has no effect
			{0, false}, {1, false}, {5, false}, {6, true}, {1, true}, {0, false}, {5, false},
		} {
			o := queueOf(current, current, step.queue*1000)
			for range current {
				o.Instances = append(o.Instances, policy.Instance{Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue})
			}
			d := policy.Decide(settings, spec, memory, status, o, now)
			checkReplay(t, policy.Inputs{Settings: settings, Spec: spec, Memory: memory, Status: status, Observation: o, Now: now}, d)
			inactive := current == 0 && step.queue <= 5
			if (d.DesiredReplicas > 0) != step.runs {
				t.Errorf("%s, step %d: %d replicas, want some: %t: %s", kind, i, d.DesiredReplicas, step.runs, d.Message)
			}
			if (d.Metrics[0].ActivationMilli != nil) != inactive || inactive != strings.Contains(d.Message, "is not above its activation of 5") {
				t.Errorf("%s, step %d: result %+v, message %q", kind, i, d.Metrics[0], d.Message)
			}
			if total := d.Metrics[0].Current.ValueMilli; current == 0 && (total == nil || *total != step.queue*1000) {
				t.Errorf("%s, step %d: the status at 0 replicas is %+v, want the total", kind, i, d.Metrics[0].Current)
			}
			outcome := policy.Outcome{}
			if d.Write {
				outcome, current = policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}, d.DesiredReplicas
			}
			s := policy.Settle(d, outcome, now)
			if current == 0 {
				next := policy.LookAhead(settings, spec, s.Memory, s.Status, d, current)
				if d.CurrentReplicas == 0 && (next.Up == nil || next.Up.Metrics[0].Value != 5000) {
					t.Errorf("%s, step %d: the count rises at %+v, want above 5", kind, i, next.Up)
				}
			}
			memory, status, now = s.Memory, s.Status, now.Add(15*time.Second)
		}
	}
	spec := queueSpec(0, 10)
	spec.Metrics[0].ActivationMilli = new(int64(-1))
	if got := policy.Validate(spec, true); len(got) != 1 || got[0].Field != "metrics[0].activation" {
		t.Errorf("a negative activation is accepted: %v", got)
	}
}
