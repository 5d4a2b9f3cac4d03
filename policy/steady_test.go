package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
)

// TestSteady checks that passes with the same observation repeat a steady decision, and that they
// only append a recommendation to the memory.
func TestSteady(t *testing.T) {
	steady := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.Settings.Mode = rapid.SampledFrom([]policy.Mode{policy.ModeOn, policy.ModeUpOnly, policy.ModeDownOnly, policy.ModeRecommend}).Draw(t, "mode")
		if !chance(t, 4, "any metrics") { // random metrics rarely recommend the current count
			goal, count := rapid.Int64Range(1, 100_000).Draw(t, "goal"), rapid.Int32Range(*w.Spec.MinReplicas, w.Spec.MaxReplicas).Draw(t, "count")
			w.Spec.Metrics = []policy.MetricSpec{queueMetric(goal)}
			w.Observation = drawObservation(t, &w.Spec, w.Now)
			w.Observation.SpecReplicas, w.Observation.StatusReplicas, w.Observation.ReadError = count, count, ""
			total := goal * int64(max(0, count-rapid.Int32Range(-1, 1).Draw(t, "surplus")))
			w.Observation.Metrics = []policy.Reading{{ValuesMilli: []int64{total}}}
		}
		period := time.Duration(rapid.IntRange(1, 400).Draw(t, "period")) * time.Second
		for range 3 {
			d := w.decide()
			repeated := d.Steady()
			w.settle(&d)
			for range 2 {
				if !repeated {
					break
				}
				steady++
				checkRepeated(t, w, &d, period)
			}
			w.Now = w.Now.Add(period)
		}
	})
	if steady < 1000 {
		t.Errorf("only %d decisions were steady", steady)
	}
}

// settle applies a decision to the world. A change of the count takes effect at once.
func (w *world) settle(d *policy.Decision) {
	outcome := policy.Outcome{}
	if d.Write {
		outcome = policy.Outcome{Kind: policy.Written, Reached: d.DesiredReplicas}
		w.Observation.SpecReplicas, w.Observation.StatusReplicas = d.DesiredReplicas, d.DesiredReplicas
	}
	settlement := policy.Settle(*d, outcome, w.Now)
	w.Memory, w.Status = settlement.Memory, settlement.Status
	w.Observation.Foreign, w.Observation.Command = nil, nil
}

// checkRepeated makes the next pass, and compares it with the steady decision d.
func checkRepeated(t *rapid.T, w *world, d *policy.Decision, period time.Duration) {
	w.Now = w.Now.Add(period)
	memory, next := w.Memory, w.decide()
	memory.Recommendations = policy.Remember(policy.RulesFor(w.Settings, w.Spec), memory.Recommendations,
		policy.Recommendation{Replicas: d.CurrentReplicas, Time: w.Now})
	if diff := cmp.Diff(d.Explained(), next.Explained(), cmpopts.IgnoreFields(policy.Decision{}, "Time")); diff != "" {
		t.Fatalf("the decision changed: %s\n%s", diff, w.text(t))
	}
	if diff := cmp.Diff(memory, next.Memory, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the memory differs: %s\n%s", diff, w.text(t))
	}
	if !next.Status.Same(w.Status) || !next.Steady() {
		t.Fatalf("the next pass is not steady\n%s", w.text(t))
	}
	w.settle(&next)
}
