package state

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

func someInputs(instances int, now time.Time) policy.Inputs {
	random := rand.New(rand.NewPCG(uint64(now.Unix()), uint64(instances)))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	in := policy.Inputs{
		Settings: policy.Settings{
			Tolerance: 0.1, DownscaleStabilization: 5 * time.Minute,
			CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second,
		},
		Spec: policy.Default(policy.Spec{MaxReplicas: int32(2 * instances), Behavior: &policy.Behavior{}, Metrics: []policy.MetricSpec{{
			Type: policy.ResourceMetric, Name: "cpu",
			Target: policy.MetricTarget{Type: policy.UtilizationTarget, AverageUtilization: new(int32(50))},
		}}}),
		Observation: policy.Observation{SpecReplicas: int32(instances), StatusReplicas: int32(instances)},
		Now:         now,
	}
	for at := now.Add(-5 * time.Minute); at.Before(now); at = at.Add(15 * time.Second) {
		in.Memory.Recommendations = append(in.Memory.Recommendations, policy.Recommendation{Replicas: int32(instances), Time: at})
	}
	var samples []policy.Sample
	for i := range instances {
		started := now.Add(-time.Hour - upTo(24*time.Hour))
		if i >= instances-instances/5 {
			started = now.Add(-upTo(4 * time.Minute))
		}
		in.Observation.Instances = append(in.Observation.Instances, policy.Instance{
			ID: strconv.FormatUint(random.Uint64(), 16), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue,
			StartedAt: started, ReadinessChanged: started.Add(upTo(20 * time.Second)),
			Tasks: []policy.Task{{Name: "app", Requests: []policy.Amount{{Resource: "cpu", Milli: 1000}, {Resource: "memory", Milli: 1 << 40}}}},
		})
		samples = append(samples, policy.Sample{Milli: 400 + random.Int64N(700), OK: true, At: now.Add(-upTo(15 * time.Second)), Window: 30 * time.Second})
	}
	in.Observation.Metrics = []policy.Reading{{Samples: samples}}
	return in
}

func decidedEntry(name string, in *policy.Inputs) Entry {
	decision := in.Decide()
	settled := policy.Settle(decision, policy.Outcome{Kind: policy.Written, Reached: decision.DesiredReplicas}, in.Now)
	return Entry{
		Autoscaler: name, Time: in.Now, Decision: decision.Explained(), Written: &decision.DesiredReplicas, Events: settled.Events,
		Reason: "ScaledUp", Engine: policy.Engine, Inputs: in,
	}
}

func verification(t tester, s Store, name string, from, to time.Time) Verification {
	t.Helper()
	found, err := s.Verify(context.Background(), name, from, to)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return found
}

func TestVerify(t *testing.T) {
	s := open(t, t.TempDir())
	defer closeStore(t, s)
	at := func(minute int) time.Time { return epoch.Add(time.Duration(minute) * time.Minute) }
	var entries []Entry
	for minute := range entriesAtOnce + 5 {
		in := someInputs(5, at(minute))
		entries = append(entries, decidedEntry([]string{"a", "ab"}[minute%2], &in))
	}
	otherwise := &entries[3]
	otherwise.Decision.DesiredReplicas++
	otherwise.Decision.Metrics = slices.Clone(otherwise.Decision.Metrics)
	otherwise.Decision.Metrics[0].Rule = ""
	entries[4].Engine++ // made by a different version
	entries[5].Inputs = nil
	for minute := range 3 { // reloads are not decisions and are not counted
		entries = append(entries, Entry{Autoscaler: "a", Time: at(minute).Add(time.Second), Reload: &settings.Reload{Author: "alice"}})
	}
	commit(t, s, Changes{Entries: entries})
	rule, desired := entries[1].Decision.Metrics[0].Rule, strconv.Itoa(int(otherwise.Decision.DesiredReplicas))
	different := []Difference{{Autoscaler: "ab", Time: at(3), Fields: []DifferentField{
		{"desired_replicas", desired, strconv.Itoa(int(otherwise.Decision.DesiredReplicas) - 1)},
		{"metrics.0.rule", "", strconv.Quote(rule)},
	}}}
	tests := []struct {
		name, autoscaler string
		from, to         time.Time
		want             Verification
	}{
		{"all", "", time.Time{}, time.Time{}, Verification{entriesAtOnce + 5, entriesAtOnce + 2, 1, 2, different}},
		{"one", "a", time.Time{}, time.Time{}, Verification{entriesAtOnce/2 + 3, entriesAtOnce/2 + 2, 0, 1, nil}},
		{"from", "ab", at(3), time.Time{}, Verification{entriesAtOnce/2 + 1, entriesAtOnce/2 - 1, 1, 1, different}},
		{"to", "", time.Time{}, at(4), Verification{4, 3, 1, 0, different}},
		{"none", "b", time.Time{}, time.Time{}, Verification{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, verification(t, s, test.autoscaler, test.from, test.to)); diff != "" {
				t.Errorf("verification (-want +got):\n%s", diff)
			}
		})
	}
}
