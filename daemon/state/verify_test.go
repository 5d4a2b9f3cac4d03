package state

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

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
	entries[4].Engine++ // another version's
	entries[5].Inputs = nil
	for minute := range 3 { // which are no decisions, and not counted
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

// Each bit of an entry that turns over under a running daemon is found, and named.
func TestVerifyFindsOneBit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer closeStore(t, s)
	var entries []Entry
	for minute := range 3 {
		in := someInputs(5, epoch.Add(time.Duration(minute)*time.Minute))
		entries = append(entries, decidedEntry("a", &in))
	}
	commit(t, s, Changes{Entries: entries})
	path := filepath.Join(dir, historyName)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sealed []byte
	err = s.(*store).history.view(func(tx *bolt.Tx) error {
		sealed = bytes.Clone(tx.Bucket(entriesBucket).Get(entryKey(timeKey(entries[1].Time), "a")))
		return nil
	})
	start := bytes.Index(content, sealed)
	if err != nil || len(sealed) == 0 || start < 0 {
		t.Fatalf("the entry of %d bytes is at %d of the file: %v", len(sealed), start, err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	put := func(b byte, at int) {
		if _, err := file.WriteAt([]byte{b}, int64(start+at)); err != nil {
			t.Fatal(err)
		}
	}
	want := Verification{Checked: 3, Identical: 2, Different: 1, Differences: []Difference{{Autoscaler: "a", Time: entries[1].Time, Error: errChecksum.Error()}}}
	for i := range 8 * len(sealed) {
		put(sealed[i/8]^1<<(i%8), i/8)
		if diff := cmp.Diff(want, verification(t, s, "", time.Time{}, time.Time{})); diff != "" {
			t.Fatalf("bit %d (-want +got):\n%s", i, diff)
		}
		put(sealed[i/8], i/8)
	}
	if found := verification(t, s, "", time.Time{}, time.Time{}); found.Identical != 3 {
		t.Errorf("without a flipped bit: %+v", found)
	}
}

// BenchmarkVerify verifies a store that is full.
func BenchmarkVerify(b *testing.B) {
	for _, instances := range []int{1, 100} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			s := open(b, b.TempDir())
			defer closeStore(b, s)
			var kinds []Entry
			for i := range 100 {
				in := someInputs(instances, epoch.Add(time.Duration(i)*time.Second))
				kinds = append(kinds, decidedEntry("checkout", &in))
			}
			size, count := 0, 0
			for size < DefaultHistoryBytes {
				entries := make([]Entry, 0, 2000)
				for range cap(entries) {
					e := kinds[count%len(kinds)]
					e.Autoscaler = fmt.Sprintf("prod/checkout-%06d/api", count)
					key := string(entryKey(timeKey(e.Time), e.Autoscaler))
					sealed, err := sealEntry(key, &e)
					if err != nil {
						b.Fatal(err)
					}
					size, count, entries = size+len(sealed), count+1, append(entries, e)
				}
				commit(b, s, Changes{Entries: entries})
			}
			for b.Loop() {
				if found := verification(b, s, "", time.Time{}, time.Time{}); found.Different+found.NotVerifiable > 0 || found.Checked < count*9/10 {
					b.Fatalf("found %+v of %d", found, count)
				}
			}
			b.ReportMetric(float64(count), "entries")
			b.ReportMetric(float64(size)/float64(count), "bytes/entry")
		})
	}
}

func BenchmarkSealEntry(b *testing.B) {
	for _, instances := range []int{1, 100} {
		in := someInputs(instances, epoch)
		with := decidedEntry("prod/checkout/api", &in)
		without := with
		without.Inputs = nil
		for _, e := range []struct {
			name string
			Entry
		}{{"with", with}, {"without", without}} {
			b.Run(fmt.Sprintf("instances=%d/%s inputs", instances, e.name), func(b *testing.B) {
				size := 0
				b.ReportAllocs()
				for b.Loop() {
					sealed, err := sealEntry("key", &e.Entry)
					if err != nil {
						b.Fatal(err)
					}
					size = len(sealed)
				}
				b.ReportMetric(float64(size), "bytes")
			})
		}
	}
}
