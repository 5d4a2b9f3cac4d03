package policy_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

func TestModeIsDisabled(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 1))
	settings := benchSettings
	settings.ScaleToZero = true
	for range 20_000 {
		mode := []policy.Mode{policy.ModeUpOnly, policy.ModeDownOnly}[random.IntN(2)]
		spec, disabled := queueSpec(random.Int32N(4), 12), queueSpec(0, 12)
		disabled.MinReplicas = spec.MinReplicas
		if mode == policy.ModeUpOnly {
			disabled.Behavior.ScaleDown.SelectPolicy = policy.DisabledChange
		} else {
			disabled.Behavior.ScaleUp.SelectPolicy = policy.DisabledChange
		}
		var memory policy.Memory
		for i := range random.IntN(4) {
			memory.Recommendations = append(memory.Recommendations, policy.Recommendation{Replicas: random.Int32N(16), Time: start.Add(-time.Duration(i) * time.Minute)})
		}
		status := policy.Status{}
		if random.IntN(2) == 0 {
			status.Conditions = []policy.Condition{{Type: policy.ScaledToZero, Status: policy.ConditionTrue}}
		}
		o := queueOf(random.Int32N(16), 3, int64(random.IntN(16))*1000)
		moded := settings
		moded.Mode = mode
		got := policy.Decide(moded, spec, memory, status, o, start)
		want := policy.Decide(settings, disabled, memory, status, o, start)
		if got.DesiredReplicas != want.DesiredReplicas || got.Write != want.Write || got.Case != want.Case || got.Write && got.HeldBy != "" {
			t.Fatalf("mode %s, count %d, queue %d: %s to %d (held by %q), with Disabled: %s to %d",
				mode, o.SpecReplicas, o.Metrics[0].ValuesMilli[0], got.Case, got.DesiredReplicas, got.HeldBy, want.Case, want.DesiredReplicas)
		}
	}
}

func TestPausedDecision(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 2))
	for range 20_000 {
		spec := queueSpec(random.Int32N(4)+1, 12)
		o := queueOf(random.Int32N(16), 3, int64(random.IntN(16))*1000)
		want := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
		direction := []policy.Direction{policy.Up, policy.Down, policy.BothDirections}[random.IntN(3)]
		o.Pauses = []policy.Pause{{Direction: direction, Message: "paused"}}
		got := policy.Decide(benchSettings, spec, policy.Memory{}, policy.Status{}, o, start)
		holds := want.Write && (direction == policy.BothDirections || (direction == policy.Up) == (want.DesiredReplicas > want.CurrentReplicas))
		if got.DesiredReplicas != want.DesiredReplicas || got.Case != want.Case || got.Write != (want.Write && !holds) || (got.HeldBy == policy.HeldByPause) != holds {
			t.Fatalf("pause %s, count %d: desired replicas = %d (write %t), want %d (write %t)", direction, o.SpecReplicas, got.DesiredReplicas, got.Write, want.DesiredReplicas, want.Write)
		}
		settled := policy.Settle(got, policy.Outcome{}, start)
		if len(settled.Memory.ScaleUpEvents)+len(settled.Memory.ScaleDownEvents) > 0 {
			t.Fatal("the paused pass added a scale event")
		}
	}
}
