package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/hpad/hpad/policy"
)

// memoryRecords implements Records in memory.
type memoryRecords struct {
	mu     sync.Mutex
	values map[string][]byte
	err    error
	once   bool
	// largest is the maximum size of a value in bytes; 0 means no limit.
	largest int
}

func (r *memoryRecords) Load(_ context.Context, keep func(string, []byte) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, value := range r.values {
		if err := keep(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *memoryRecords) Write(_ context.Context, values map[string][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.err; err != nil {
		if r.once {
			r.err = nil
		}
		return err
	}
	rejected := RejectedError{}
	for key, value := range values {
		if r.largest > 0 && len(value) > r.largest {
			rejected[key] = errors.New("too large")
		}
	}
	if len(rejected) > 0 {
		return rejected
	}
	for key, value := range values {
		if value == nil {
			delete(r.values, key)
		} else {
			r.values[key] = slices.Clone(value)
		}
	}
	return nil
}

func openShared(t *testing.T, dir string, records Records) Shared {
	t.Helper()
	s, err := OpenShared(t.Context(), dir, records, time.Second, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestShared(t *testing.T) {
	records := &memoryRecords{values: map[string][]byte{}}
	first := openShared(t, t.TempDir(), records)
	pause := policy.Pause{Scope: policy.Scope{Fleet: "shop"}, Direction: policy.Down, Since: epoch}
	commit(t, first, Changes{
		Records:   map[string]Record{"a": sampleRecord(1), "b": sampleRecord(2), "gone": sampleRecord(3)},
		Pauses:    map[policy.Scope]*policy.Pause{pause.Scope: &pause},
		Removals:  map[string]Removals{"shop": {Rounds: []Removal{{Time: epoch, Instances: 2}}}},
		LastRound: epoch,
		Entries:   []Entry{sampleEntry("a", 1)},
	})
	commit(t, first, Changes{Deleted: []string{"gone"}})
	fleet := first.Fleet("shop")
	for _, key := range []string{"seen/a/b", "gone"} {
		if err := fleet.Save(t.Context(), key, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := fleet.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	want := load(t, first)
	closeStore(t, first)

	second := openShared(t, t.TempDir(), records)
	defer closeStore(t, second)
	if diff := cmp.Diff(want, load(t, second)); diff != "" {
		t.Errorf("the next member loaded a different state:\n%s", diff)
	}
	if got, err := second.Fleet("shop").List(t.Context(), ""); err != nil || len(got) != 1 || string(got["seen/a/b"]) != "value" {
		t.Errorf("the fleet's store contains %q, %v", got, err)
	}
	if losses := second.Losses(); len(losses) > 0 {
		t.Errorf("losses = %v", losses)
	}
}

// TestSharedUsesRecords checks that a store uses the records if the state in its directory is
// older.
func TestSharedUsesRecords(t *testing.T) {
	dir := t.TempDir()
	records := &memoryRecords{values: map[string][]byte{}}
	first := openShared(t, dir, records)
	commit(t, first, Changes{Records: map[string]Record{"a": sampleRecord(1), "b": sampleRecord(2)}, Entries: []Entry{sampleEntry("a", 1)}})
	closeStore(t, first)
	elsewhere := openShared(t, t.TempDir(), records)
	commit(t, elsewhere, Changes{Records: map[string]Record{"a": sampleRecord(7)}, Deleted: []string{"b"}})
	want := load(t, elsewhere)
	closeStore(t, elsewhere)

	again := openShared(t, dir, records)
	defer closeStore(t, again)
	if diff := cmp.Diff(want, load(t, again)); diff != "" {
		t.Errorf("the state of the directory was used instead of the records:\n%s", diff)
	}
	if losses := again.Losses(); len(losses) > 0 {
		t.Errorf("losses = %v", losses)
	}
	if entries, err := again.History(t.Context(), "", time.Time{}, time.Time{}, 0); err != nil || len(entries) != 1 {
		t.Errorf("history entries = %d, %v; want those of this directory", len(entries), err)
	}
}

func TestSharedFenced(t *testing.T) {
	records := &memoryRecords{values: map[string][]byte{}}
	s := openShared(t, t.TempDir(), records)
	defer closeStore(t, s)
	commit(t, s, Changes{Records: map[string]Record{"a": sampleRecord(1)}})
	want := load(t, s)
	records.err = fmt.Errorf("term 3: %w", ErrFenced)
	if err := s.Commit(t.Context(), Changes{Records: map[string]Record{"a": sampleRecord(2)}}); !errors.Is(err, ErrFenced) {
		t.Errorf("Commit = %v", err)
	}
	if err := s.Fleet("shop").Save(t.Context(), "key", nil); !errors.Is(err, ErrFenced) {
		t.Errorf("Save of a fleet = %v", err)
	}
	if diff := cmp.Diff(want, load(t, s)); diff != "" {
		t.Errorf("a rejected value was written:\n%s", diff)
	}
	later := &memoryRecords{values: maps.Clone(records.values)}
	s.Continue(later)
	commit(t, s, Changes{Records: map[string]Record{"a": sampleRecord(2)}})
	if len(later.values) != len(records.values) || cmp.Equal(later.values, records.values) {
		t.Error("values written after Continue are missing in the later records")
	}
}

func TestSharedDamaged(t *testing.T) {
	for _, key := range []string{"autoscalers/a", "meta/last_round", "elsewhere/a", "autoscalers/", "fleets/shop"} {
		records := &memoryRecords{values: map[string][]byte{key: []byte("\x01\x00\x00\x00\x00{}")}}
		dir := filepath.Join(t.TempDir(), "shard")
		s, err := OpenShared(t.Context(), dir, records, time.Second, Options{})
		if err == nil {
			_, err = s.Load(t.Context())
			closeStore(t, s)
		}
		if err == nil {
			t.Errorf("the invalid value of %q was accepted", key)
		}
	}
}

// TestSharedRejects checks that values that are too large for the cluster's records are rejected,
// and that valid values of autoscalers and fleets in the same store are written.
func TestSharedRejects(t *testing.T) {
	records := &memoryRecords{values: map[string][]byte{}, largest: 10_000}
	s := openShared(t, t.TempDir(), records)
	defer closeStore(t, s)
	large := sampleRecord(1)
	large.Labels = map[string]string{"hpad.metrics.0.name": strings.Repeat("x", 80_000)}
	fleet := s.Fleet("shop")
	for i := range 2 {
		if err := fleet.Save(t.Context(), "large", make([]byte, 20_000)); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("Save of a large value = %v", err)
		}
		if err := fleet.Save(t.Context(), "small", []byte{byte(i)}); err != nil {
			t.Error(err)
		}
		changes := Changes{Records: map[string]Record{"small": sampleRecord(i), "large": large}, Entries: []Entry{sampleEntry("small", i)}}
		err := s.Commit(t.Context(), changes)
		if rejected, is := errors.AsType[RejectedError](err); !is || len(rejected) != 1 || rejected["large"] == nil {
			t.Errorf("Commit = %.200v, want the large record rejected", err)
		}
	}
	if got := load(t, s).Autoscalers; len(got) != 1 || len(records.values) != 2 {
		t.Errorf("autoscalers in the store = %d, values in the cluster = %d, want 1 and 2", len(got), len(records.values))
	}
	if got, err := s.History(t.Context(), "", time.Time{}, time.Time{}, 0); err != nil || len(got) != 2 {
		t.Errorf("history entries = %d, %v, want 2", len(got), err)
	}
}

// TestSharedWithoutFiles checks that a store still writes to the cluster's records if its files
// cannot be written.
func TestSharedWithoutFiles(t *testing.T) {
	records := &memoryRecords{values: map[string][]byte{}}
	opened := openShared(t, t.TempDir(), records)
	s := opened.(*store)
	breakFile := func(d *database) {
		if err := d.update(func(*bolt.Tx) error { panic("broken") }); err == nil {
			t.Fatal("the file is not broken")
		}
	}
	breakFile(s.history)
	for i := range 2 {
		err := s.Commit(t.Context(), Changes{Records: map[string]Record{"a": sampleRecord(i)}, Entries: []Entry{sampleEntry("a", i)}})
		if _, is := errors.AsType[*HistoryError](err); !is {
			t.Errorf("without a history, Commit returns %v, want a HistoryError", err)
		}
		if diff := cmp.Diff(replayed(sampleRecord(i), time.Time{}), load(t, s).Autoscalers["a"]); diff != "" {
			t.Errorf("record written without a history (-want +got):\n%s", diff)
		}
	}
	breakFile(s.state)
	before := len(records.values)
	err := s.Commit(t.Context(), Changes{Records: map[string]Record{"b": sampleRecord(1)}})
	if _, is := errors.AsType[*CopyError](err); !is || len(records.values) != before+1 {
		t.Errorf("without state.db, Commit returns %v, want a CopyError after the write of the records", err)
	}
	_ = s.Close()
}
