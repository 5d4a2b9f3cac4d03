package state

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

func open(t tester, dir string) Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func closeStore(t tester, s Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func commit(t tester, s Store, changes Changes) {
	t.Helper()
	if err := s.Commit(context.Background(), changes); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func load(t tester, s Store) Snapshot {
	t.Helper()
	snapshot, err := s.Load(context.Background())
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return snapshot
}

// sampleRecord returns the record of a steady autoscaler with a five-minute window, a 15-second
// period, two metrics and all conditions.
func sampleRecord(i int) Record {
	var memory policy.Memory
	for j := range 21 {
		memory.Recommendations = append(memory.Recommendations, policy.Recommendation{
			Replicas: int32(3 + (i+j)%5), Time: epoch.Add(time.Duration(j-21) * 15 * time.Second),
		})
	}
	for j := range 3 {
		event := policy.ScaleEvent{Change: int32(j + 1), Time: epoch.Add(-time.Duration(j) * time.Minute), Outdated: j == 2}
		memory.ScaleUpEvents = append(memory.ScaleUpEvents, event)
		memory.ScaleDownEvents = append(memory.ScaleDownEvents, event)
	}
	condition := func(kind policy.ConditionType, status policy.ConditionStatus, reason, message string) policy.Condition {
		return policy.Condition{Type: kind, Status: status, Since: epoch.Add(-time.Hour), Reason: reason, Message: message}
	}
	return Record{
		Created: epoch.Add(-24 * time.Hour),
		Memory:  memory,
		Status: policy.Status{
			CurrentReplicas: 4, DesiredReplicas: 5, LastScaleTime: epoch.Add(-time.Minute),
			Metrics: []policy.MetricStatus{
				{Type: policy.ResourceMetric, Name: "cpu", AverageUtilization: new(int32(62)), AverageValueMilli: new(int64(312))},
				{Type: policy.ExternalMetric, Name: "queue", ValueMilli: new(int64(90_000))},
			},
			Conditions: []policy.Condition{
				condition(policy.AbleToScale, policy.ConditionTrue, "ReadyForNewScale", "recommended size matches current size"),
				condition(policy.ScalingActive, policy.ConditionTrue, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from cpu resource utilization"),
				condition(policy.ScalingLimited, policy.ConditionFalse, "DesiredWithinRange", "the desired count is within the acceptable range"),
			},
		},
		Through:     epoch,
		Replay:      &Replay{Replicas: 5, Period: 15 * time.Second, Rules: policy.WindowRules{Behavior: true, Down: 5 * time.Minute}},
		Target:      targets.Ref{Fleet: "prod", Name: fmt.Sprintf("checkout-%d/api", i)},
		Fingerprint: "2dd1c5f3b1a74a9e8d5f",
	}
}

func TestRejectedRecords(t *testing.T) {
	random := make([]byte, 2*maxRecord)
	_, _ = rand.Read(random)
	bad := []struct {
		name    string
		changes Changes
		want    string
	}{
		{"record without a name", Changes{Records: map[string]Record{"": {}}}, "name is empty"},
		{"name too long", Changes{Records: map[string]Record{strings.Repeat("n", 40_000): {}}}, "40000 bytes"},
		{"record too large", Changes{Records: map[string]Record{"a": {Labels: map[string]string{"hpad.x": hex.EncodeToString(random)}}}}, "the limit is 1048576"},
		{"record that JSON cannot encode", Changes{Records: map[string]Record{"a": {Created: time.Date(10_001, 1, 1, 0, 0, 0, 0, time.UTC)}}}, "year outside of range"},
		{"entry without a time", Changes{Entries: []Entry{{Autoscaler: "a"}}}, "no time"},
		{"entry without a name", Changes{Entries: []Entry{{Time: epoch}}}, "name is empty"},
		{"entry that JSON cannot encode", Changes{Entries: []Entry{{
			Autoscaler: "a", Time: epoch, Decision: policy.Decision{Metrics: []policy.MetricResult{{ToleranceUp: math.NaN()}}},
		}}}, "NaN"},
	}
	for _, test := range bad {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			defer closeStore(t, s)
			changes := test.changes
			if changes.Records == nil {
				changes.Records = map[string]Record{}
			}
			changes.Records["fine"] = sampleRecord(1)
			changes.Entries = append(changes.Entries, Entry{Autoscaler: "fine", Time: epoch})
			changes.LastRound = epoch
			err := s.Commit(t.Context(), changes)
			rejected, is := errors.AsType[RejectedError](err)
			if !is || len(rejected) != 1 || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 500 {
				t.Errorf("error = %v, want one rejected record and %q", err, test.want)
			}
			if got := load(t, s); len(got.Autoscalers) != 1 || !got.LastRound.Equal(epoch) {
				t.Errorf("the other changes were not written: %+v", got)
			}
			if got, err := s.History(t.Context(), "fine", time.Time{}, time.Time{}, 0); err != nil || len(got) != 1 {
				t.Errorf("history = %v, %v", got, err)
			}
		})
	}
}

type simulated struct {
	period  time.Duration
	rules   policy.WindowRules
	memory  policy.Memory
	saved   *Replay
	through time.Time
}

func (d *simulated) pass(now time.Time, replicas int32) *Record {
	d.memory.Recommendations = policy.Remember(d.rules, d.memory.Recommendations, policy.Recommendation{Replicas: replicas, Time: now})
	replay := Replay{Replicas: replicas, Period: d.period, Rules: d.rules}
	expected := d.saved != nil && *d.saved == replay && now.Equal(nextTick(d.through, d.period))
	d.through = now
	if expected {
		return nil
	}
	d.saved = &replay
	return &Record{Memory: d.memory, Through: now, Replay: &replay}
}

func (d *simulated) missed() *Record {
	if d.saved == nil {
		return nil
	}
	d.saved = nil
	return &Record{Memory: d.memory, Through: d.through}
}

func TestRestartLosesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { closeStore(t, s) }()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		name := fmt.Sprint("a", run)
		period := time.Duration(rapid.SampledFrom([]int{1, 5, 15, 60}).Draw(t, "period")) * time.Second
		d := &simulated{period: period, rules: policy.WindowRules{
			Behavior: rapid.Bool().Draw(t, "behavior"),
			Up:       time.Duration(rapid.IntRange(0, 8).Draw(t, "up")) * period,
			Down:     time.Duration(rapid.IntRange(0, 20).Draw(t, "down")) * period,
		}}
		now := epoch.Add(time.Duration(run) * 24 * time.Hour)
		replicas := int32(3)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if rapid.IntRange(0, 5).Draw(t, "change") == 0 {
				replicas = rapid.Int32Range(0, 9).Draw(t, "replicas")
			}
			now = nextTick(now, period)
			var record *Record
			switch rapid.IntRange(0, 19).Draw(t, "kind") {
			case 0:
				record = d.missed()
			case 1: // an extra pass just before the tick
				if early := d.pass(now.Add(-period/3), replicas); early != nil {
					commit(t, s, Changes{Records: map[string]Record{name: *early}})
				}
				record = d.pass(now, replicas)
			default:
				record = d.pass(now, replicas)
			}
			changes := Changes{LastRound: now}
			if record != nil {
				changes.Records = map[string]Record{name: *record}
			}
			commit(t, s, changes)
			if rapid.IntRange(0, 24).Draw(t, "restart") == 0 {
				closeStore(t, s)
				s = open(t, dir)
				d.compare(t, load(t, s).Autoscalers[name])
			}
		}
		d.compare(t, load(t, s).Autoscalers[name])
		commit(t, s, Changes{Deleted: []string{name}})
	})
}

func (d *simulated) compare(t *rapid.T, record Record) {
	t.Helper()
	d.memory.Recommendations = inWindow(d.rules, d.memory.Recommendations, d.through)
	record.Memory.Recommendations = inWindow(d.rules, record.Memory.Recommendations, d.through)
	if diff := cmp.Diff(d.memory, record.Memory); diff != "" {
		t.Fatalf("memory (-uninterrupted +restarted):\n%s", diff)
	}
	if !record.Through.Equal(d.through) {
		t.Fatalf("Through = %s, want %s", record.Through, d.through)
	}
}
