package simulate_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/schedule"
	"github.com/hpad/hpad/simulate"
)

// sameCounts checks that the first row has the recorded counts at each tick.
func sameCounts(t rapid.TB, recording *simulate.Recording, row *simulate.Row) {
	differences := 0
	for i := range recording.Ticks {
		tick := &recording.Ticks[i]
		if !tick.Readable() || tick.Replicas == row.Replicas[i] {
			continue
		}
		if differences++; differences <= 3 {
			t.Errorf("%s: %d replicas, recorded %d (before: %+v)", tick.Time, row.Replicas[i], tick.Replicas, recording.Ticks[i-1])
		}
	}
	if differences > 3 {
		t.Errorf("%d differences in %d ticks", differences, len(recording.Ticks))
	}
}

// TestAgainstItself plays random policies with pauses, manual changes, restarts, missing and partial
// readings, schedules and formulas. The simulation of the same policy has the recorded counts.
func TestAgainstItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := randomGame(t)
		recording := g.play(t)
		result, err := simulate.Run(t.Context(), recording, []simulate.Policy{g.policy}, simulate.Assumptions{})
		if err != nil {
			t.Fatal(err)
		}
		sameCounts(t, recording, &result.Rows[0])
	})
}

// draw returns a random number of a range.
func draw(t *rapid.T, name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }

func randomGame(t *rapid.T) *game {
	all := []policy.MetricSpec{
		utilization(int32(draw(t, "utilization", 30, 120))), average("jobs", float64(draw(t, "average", 1, 5))), value("load", float64(draw(t, "value", 1, 5))),
		{Type: policy.InstancesMetric, Name: "requests", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(700))}},
		{Type: policy.ResourceMetric, Name: "memory", Target: policy.MetricTarget{Type: policy.AverageValueTarget, AverageValueMilli: new(int64(900))}},
	}
	metrics := rapid.Permutation(all).Draw(t, "metrics")[:draw(t, "count", 1, 3)]
	if rapid.Bool().Draw(t, "on missing") {
		use := rapid.SampledFrom([]policy.MissingUse{policy.UseHold, policy.UseLast, policy.UseMax}).Draw(t, "use")
		metrics[0].OnMissing = &policy.OnMissing{AfterSeconds: int32(draw(t, "after", 0, 60)), Use: use}
	}
	if len(metrics) > 1 && rapid.Bool().Draw(t, "formula") {
		combined := average("combined", 2)
		combined.Formula = "max(" + metrics[0].Name + ", " + metrics[1].Name + ")"
		metrics = append(metrics, combined)
	}
	s := spec(int32(draw(t, "min", 1, 3)), int32(draw(t, "max", 5, 20)), metrics...)
	if rapid.Bool().Draw(t, "behavior") {
		s.Behavior = &policy.Behavior{ScaleUp: randomRules(t, "up"), ScaleDown: randomRules(t, "down")}
		s = policy.Default(s)
	}
	p := policyOf("active", s)
	p.RestoreForeign = rapid.Bool().Draw(t, "restore")
	if rapid.Bool().Draw(t, "schedule") {
		p.Schedules = []schedule.Config{{Name: "half", Zone: "UTC", Cron: "30 * * * *", Duration: 20 * time.Minute, MinReplicas: new(int32(4))}}
	}
	events := rapid.SliceOfN(rapid.IntRange(0, 60), 400, 400).Draw(t, "events")
	low := float64(draw(t, "low", 0, 4))
	return &game{
		policy: p, replicas: 3, load: waves(low, low+float64(draw(t, "amplitude", 0, 20)), 40*time.Minute, uint64(draw(t, "seed", 0, 1000))),
		startup: time.Duration(draw(t, "startup", 0, 60)) * time.Second, step: 15 * time.Second, ticks: len(events),
		before: func(i int, g *game, o *policy.Observation) bool {
			switch events[i] {
			case 1:
				o.ReadError = "unreachable"
			case 2, 3:
				o.Pauses = []policy.Pause{{Direction: []policy.Direction{policy.Up, policy.Down}[events[i]-2], Message: "paused"}}
			case 4:
				o.Metrics[0] = policy.Reading{Error: "no answer"}
			case 5:
				o.Metrics[0].Partial = "partial"
			case 6: // a manual change
				g.replicas = int32(1 + i%9)
				g.resize()
				o.SpecReplicas, o.StatusReplicas, o.Instances, o.Metrics = g.replicas, g.replicas, g.instances, g.read()
			case 7:
				o.Hold = &policy.Hold{Message: "held"}
			case 8: // hpad restarts
				return false
			case 9:
				o.Command = &policy.Command{Replicas: int32(2 + i%5)}
			case 10: // all instances fail
				for j := range o.Instances {
					o.Instances[j].Readiness = policy.ReadinessFalse
				}
			}
			return true
		},
	}
}

func randomRules(t *rapid.T, name string) *policy.ScalingRules {
	return &policy.ScalingRules{
		StabilizationWindowSeconds: new(int32(draw(t, name+" window", 0, 300))),
		Policies: []policy.ScalingPolicy{
			{Type: policy.InstancesPolicy, Value: int32(draw(t, name+" instances", 1, 4)), PeriodSeconds: int32(draw(t, name+" period", 15, 120))},
			{Type: policy.PercentPolicy, Value: int32(draw(t, name+" percent", 10, 100)), PeriodSeconds: int32(draw(t, name+" percent period", 15, 120))},
		},
	}
}
