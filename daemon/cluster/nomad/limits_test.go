package nomad

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/daemon/state"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func record(random *rand.Rand, i int, now time.Time) state.Record {
	var memory policy.Memory
	for j := range 21 {
		memory.Recommendations = append(memory.Recommendations, policy.Recommendation{
			Replicas: 3 + random.Int32N(9), Time: now.Add(time.Duration(j-21) * 15 * time.Second),
		})
	}
	for j := range 3 {
		event := policy.ScaleEvent{Change: 1 + random.Int32N(4), Time: now.Add(-time.Duration(random.Int64N(int64(time.Hour)))), Outdated: j == 2}
		memory.ScaleUpEvents = append(memory.ScaleUpEvents, event)
		memory.ScaleDownEvents = append(memory.ScaleDownEvents, event)
	}
	condition := func(kind policy.ConditionType, reason, message string) policy.Condition {
		return policy.Condition{
			Type: kind, Status: policy.ConditionTrue, Since: now.Add(-time.Duration(random.Int64N(int64(24 * time.Hour)))), Reason: reason, Message: message,
		}
	}
	return state.Record{
		Created: now.Add(-time.Duration(random.Int64N(int64(1000 * time.Hour)))), Memory: memory,
		Status: policy.Status{
			CurrentReplicas: random.Int32N(40), DesiredReplicas: random.Int32N(40), LastScaleTime: now.Add(-time.Duration(random.Int64N(int64(time.Hour)))),
			Metrics: []policy.MetricStatus{
				{Type: policy.ResourceMetric, Name: "cpu", AverageUtilization: new(random.Int32N(100)), AverageValueMilli: new(random.Int64N(1000))},
				{Type: policy.ExternalMetric, Name: "queue", ValueMilli: new(random.Int64N(1_000_000))},
			},
			Conditions: []policy.Condition{
				condition(policy.AbleToScale, "ReadyForNewScale", "recommended size matches current size"),
				condition(policy.ScalingActive, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from cpu resource utilization"),
				condition(policy.ScalingLimited, "DesiredWithinRange", "the desired count is within the acceptable range"),
			},
		},
		Through:     now,
		Replay:      &state.Replay{Replicas: 5, Period: 15 * time.Second, Rules: policy.WindowRules{Behavior: true, Down: 5 * time.Minute}},
		Target:      targets.Ref{Fleet: "prod", Name: fmt.Sprintf("checkout-%d/api", i)},
		Fingerprint: fmt.Sprintf("%020x", random.Uint64()),
	}
}

func TestSizes(t *testing.T) {
	const count = 2000
	f := newFake(t)
	owner := f.own(t, "a")
	store, err := state.OpenShared(t.Context(), t.TempDir(), owner, time.Minute, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	random, now := rand.New(rand.NewPCG(1, 1)), time.Now()
	changes := state.Changes{Records: map[string]state.Record{}, LastRound: now}
	for i := range count {
		changes.Records[fmt.Sprintf("checkout-%04d", i)] = record(random, i, now)
	}
	if err := store.Commit(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes, pages := 0, 0
	for path, page := range f.variables {
		if strings.Contains(path, "/records/prod/16/") {
			bytes += len(page.Items[recordsItem])
			pages++
		}
	}
	t.Logf("%d bytes for each of %d autoscalers, in %d pages of %d bytes", bytes/count, count, pages, bytes/pages)
	if bytes/count > bytesEach || bytes/count < bytesEach*3/4 {
		t.Errorf("an autoscaler takes %d bytes, want some %d", bytes/count, bytesEach)
	}
	if bytes/pages < bytesPage*3/4 || bytes/pages > largestPage {
		t.Errorf("a page has %d bytes, want some %d", bytes/pages, bytesPage)
	}
}
