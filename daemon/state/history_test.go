package state

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
)

var stored = cmpopts.IgnoreUnexported(policy.Decision{})

func sampleEntry(name string, minute int) Entry {
	at := epoch.Add(time.Duration(minute) * time.Minute)
	return Entry{
		Autoscaler: name,
		Time:       at,
		Decision: policy.Decision{
			Time: at, Case: policy.CaseMetrics, CurrentReplicas: 3, DesiredReplicas: 4, Write: true,
			Metrics: []policy.MetricResult{{Type: policy.ResourceMetric, Name: "cpu", Ratio: new(1.25), Proposal: 4, Rule: "R36.2"}},
		},
		Written: new(int32(4)),
		Events:  []policy.Event{{Kind: policy.NormalEvent, Reason: "SuccessfulRescale", Message: "new size: 4"}},
	}
}

func minutes(entries []Entry) []int {
	found := []int{}
	for _, e := range entries {
		found = append(found, int(e.Time.Sub(epoch)/time.Minute))
	}
	return found
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { closeStore(t, s) }()
	// "a", "ab" and "b" have adjacent keys in the file.
	for _, minute := range []int{5, 1, 3, 2, 4} {
		commit(t, s, Changes{Entries: []Entry{sampleEntry("a", minute), sampleEntry("ab", minute), sampleEntry("b", minute)}})
	}
	commit(t, s, Changes{Deleted: []string{"a"}})
	closeStore(t, s)
	s = open(t, dir)
	at := func(minute int) time.Time { return epoch.Add(time.Duration(minute) * time.Minute) }
	tests := []struct {
		name, autoscaler string
		from, to         time.Time
		limit            int
		want             []int
	}{
		{"all", "a", time.Time{}, time.Time{}, 0, []int{1, 2, 3, 4, 5}},
		{"other autoscaler", "ab", time.Time{}, time.Time{}, 0, []int{1, 2, 3, 4, 5}},
		{"last name", "b", time.Time{}, time.Time{}, 0, []int{1, 2, 3, 4, 5}},
		{"unknown autoscaler", "c", time.Time{}, time.Time{}, 0, []int{}},
		{"from", "a", at(3), time.Time{}, 0, []int{3, 4, 5}},
		{"to", "a", time.Time{}, at(3), 0, []int{1, 2}},
		{"both", "b", at(2), at(4), 0, []int{2, 3}},
		{"between two entries", "b", at(2).Add(1), at(4).Add(1), 0, []int{3, 4}},
		{"newest", "ab", time.Time{}, time.Time{}, 2, []int{4, 5}},
		{"newest before a time", "ab", time.Time{}, at(4), 2, []int{2, 3}},
		{"limit above the number of entries", "ab", at(5), time.Time{}, 2, []int{5}},
		{"none", "a", at(6), at(2), 0, []int{}},
		{"all autoscalers", "", time.Time{}, at(3), 0, []int{1, 1, 1, 2, 2, 2}},
		{"newest of all autoscalers", "", time.Time{}, time.Time{}, 4, []int{4, 5, 5, 5}},
		{"all autoscalers from a time", "", at(5), time.Time{}, 0, []int{5, 5, 5}},
		{"times outside the supported range", "a", time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), 0, []int{1, 2, 3, 4, 5}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := s.History(t.Context(), test.autoscaler, test.from, test.to, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, minutes(got)); diff != "" {
				t.Errorf("minutes (-want +got):\n%s", diff)
			}
			for i, entry := range got {
				name := test.autoscaler
				if name == "" {
					name = []string{"b", "ab", "a"}[(len(got)-1-i)%3]
				}
				if diff := cmp.Diff(sampleEntry(name, minutes([]Entry{entry})[0]), entry, stored); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestHistoryRetention(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	for minute := range 200 {
		commit(t, s, Changes{Entries: []Entry{sampleEntry("a", minute), sampleEntry("b", minute)}})
	}
	got, err := s.History(t.Context(), "a", time.Time{}, time.Time{}, 0)
	if err != nil || len(got) != 61 || minutes(got)[0] != 139 {
		t.Errorf("%d entries from minute %d, %v; want 61 from 139", len(got), minutes(got)[0], err)
	}
	late := 10_000
	for range 20 {
		late++
		commit(t, s, Changes{Entries: []Entry{sampleEntry("b", late)}})
	}
	if got, err := s.History(t.Context(), "a", time.Time{}, time.Time{}, 0); err != nil || len(got) != 0 {
		t.Errorf("entries = %v, %v; want none", minutes(got), err)
	}
	if got, err := s.History(t.Context(), "b", time.Time{}, time.Time{}, 0); err != nil || len(got) != 20 {
		t.Errorf("entries = %v, %v; want 20", minutes(got), err)
	}
}

func TestDamagedEntry(t *testing.T) {
	dir := t.TempDir()
	st, err := Open(dir, Options{Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	var entries []Entry
	for minute := range 3 {
		in := someInputs(2, epoch.Add(time.Duration(minute)*time.Minute))
		entries = append(entries, decidedEntry("a", &in))
	}
	commit(t, st, Changes{Entries: entries})
	damage := func(at func(*bolt.Cursor) ([]byte, []byte)) {
		err := st.(*store).history.update(func(tx *bolt.Tx) error {
			key, value := at(tx.Bucket(entriesBucket).Cursor())
			value = bytes.Clone(value)
			value[len(value)-1] ^= 1
			return tx.Bucket(entriesBucket).Put(bytes.Clone(key), value)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	damage((*bolt.Cursor).First)
	if found, err := st.History(t.Context(), "a", time.Time{}, time.Time{}, 0); err != nil || len(found) != 2 {
		t.Errorf("read %d entries, %v, want the two intact entries", len(found), err)
	}
	in := someInputs(2, epoch.Add(2*time.Hour))
	commit(t, st, Changes{Records: map[string]Record{"a": sampleRecord(1)}, Entries: []Entry{decidedEntry("a", &in)}})
	if found, err := st.History(t.Context(), "a", time.Time{}, time.Time{}, 0); err != nil || len(found) != 1 {
		t.Errorf("read %d entries, %v, want only the new entry, because the other entries are too old", len(found), err)
	}
	if len(load(t, st).Autoscalers) != 1 {
		t.Error("the record was not written")
	}
}

func TestHistorySize(t *testing.T) {
	sealed, err := sealJSON("a", sampleEntry("a", 1))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, start := range []int{0, 300} { // the sum survives a restart
		s, err := Open(dir, Options{HistoryBytes: int64(50 * len(sealed))})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			commit(t, s, Changes{Entries: []Entry{sampleEntry("a", start+i)}})
		}
		got, err := s.History(t.Context(), "a", time.Time{}, time.Time{}, 0)
		if err != nil || len(got) < 48 || len(got) > 52 || minutes(got)[len(got)-1] != start+299 {
			t.Errorf("minutes = %v, %v; want about the newest 50", minutes(got), err)
		}
		closeStore(t, s)
	}
}
