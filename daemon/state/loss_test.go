package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
)

// wantLosses wants losses of those parts, in that order.
func wantLosses(t *testing.T, s Store, want ...Part) {
	t.Helper()
	var got []Part
	for _, loss := range s.Losses() {
		got = append(got, loss.Part)
		if age := time.Since(loss.At); age < 0 || age > time.Minute || loss.Message == "" {
			t.Errorf("loss %+v, want one of now with a message", loss)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lost are %q, want %q", got, want)
	}
}

// TestLossIsTold loses files between two starts: what is lost is reported at the next
// start, and at those after it.
func TestLossIsTold(t *testing.T) {
	for _, test := range []struct {
		name    string
		removed []string
		want    []Part
	}{
		{"nothing", nil, nil},
		{"the state", []string{"state.db"}, []Part{MemoryPart}},
		{"the history", []string{"history.db"}, []Part{HistoryPart}},
		{"both", []string{"state.db", "history.db"}, []Part{MemoryPart}},
		{"the lock", []string{"lock"}, nil},
		{"the state and the lock", []string{"state.db", "lock"}, []Part{MemoryPart}},
		{"all, as of a new directory", []string{"state.db", "history.db", "lock"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			filled(t, dir)
			s := open(t, dir)
			wantLosses(t, s)
			closeStore(t, s)
			for _, name := range test.removed {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				s = open(t, dir)
				wantLosses(t, s, test.want...)
				closeStore(t, s)
			}
		})
	}
}

// TestBothAreDamaged damages both files: neither is begun anew in silence.
func TestBothAreDamaged(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	for _, name := range []string{stateName, historyName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, Options{}); !errors.As(err, new(*DamagedError)) {
		t.Errorf("open returns %v", err)
	}
	for range 2 {
		s := open(t, dir)
		wantLosses(t, s, MemoryPart, HistoryPart)
		closeStore(t, s)
	}
}

// TestNothingIsLostAtFirst ends the first starts of a directory too early.
func TestNothingIsLostAtFirst(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir))
	if err := os.Remove(filepath.Join(dir, "history.db")); err != nil { // as if it had not been made yet
		t.Fatal(err)
	}
	s := open(t, dir)
	wantLosses(t, s)
	closeStore(t, s)

	dir = t.TempDir()
	held, err := take(dir, &claim{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.release(&claim{}); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer closeStore(t, s)
	wantLosses(t, s)
}

// TestLossesAreBounded damages the history again and again.
func TestLossesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range keptLosses + 3 {
		closeStore(t, open(t, dir))
		if err := os.WriteFile(filepath.Join(dir, "history.db"), []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	defer closeStore(t, s)
	wantLosses(t, s, slices.Repeat([]Part{HistoryPart}, keptLosses)...)
}

// TestLossFromTheFuture sets the clock back after a loss.
func TestLossFromTheFuture(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	early := Loss{At: time.Now().Add(-time.Second).UTC(), Part: HistoryPart, Message: "lost"}
	late := Loss{At: time.Now().Add(24 * time.Hour).UTC(), Part: MemoryPart, Message: "lost"}
	edit(putLosses([]Loss{early, late}))(t, filepath.Join(dir, stateName))
	s := open(t, dir)
	wantLosses(t, s, HistoryPart, MemoryPart)
	noticed := s.Losses()
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if got := s.Losses(); !slices.Equal(got, noticed) || !got[0].At.Equal(early.At) {
		t.Errorf("after another start lost are %v, want %v", got, noticed)
	}
}

// TestLastCount wants counts of entries that are there, that have none, and that were
// removed for their age.
func TestLastCount(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { closeStore(t, s) }()
	if _, known, err := s.LastCount(t.Context(), "grown"); err != nil || known { // as in a file of an earlier version
		t.Errorf("an empty history knows a count: %t, %v", known, err)
	}
	told := func(name string, minute int, written *int32, current int32, c policy.Case) Entry {
		entry := sampleEntry(name, minute)
		entry.Written, entry.Decision.CurrentReplicas, entry.Decision.Case = written, current, c
		return entry
	}
	commit(t, s, Changes{Entries: []Entry{
		told("grown", 0, new(int32(5)), 4, policy.CaseMetrics),
		told("grown", 1, new(int32(7)), 5, policy.CaseMetrics),
		told("steady", 1, nil, 3, policy.CaseMetrics),
		told("gone", 1, nil, 3, policy.CaseMetrics),
		told("unreadable", 1, new(int32(2)), 1, policy.CaseMetrics),
		told("unreadable", 2, nil, 0, policy.CaseUnreadable),
		told("off", 2, nil, 0, policy.CaseDisabled),
	}})
	want := func(counts map[string]int32) {
		t.Helper()
		for _, name := range []string{"grown", "steady", "gone", "unreadable", "off", "never"} {
			got, known, err := s.LastCount(t.Context(), name)
			count, wanted := counts[name]
			if err != nil || known != wanted || got != count {
				t.Errorf("the last count of %q is %d, %t, %v; want %d, %t", name, got, known, err, count, wanted)
			}
		}
	}
	all := map[string]int32{"grown": 7, "steady": 3, "gone": 3, "unreadable": 2, "off": 0}
	want(all)
	for minute := range 5 { // which removes the others
		commit(t, s, Changes{Entries: []Entry{told("another", 120+minute, nil, 1, policy.CaseMetrics)}})
	}
	if entries, err := s.History(t.Context(), "grown", time.Time{}, time.Time{}, 0); err != nil || len(entries) != 0 {
		t.Fatalf("%d old entries are there, %v", len(entries), err)
	}
	want(all)
	closeStore(t, s)
	s = open(t, dir)
	want(all)
	commit(t, s, Changes{Deleted: []string{"gone"}})
	delete(all, "gone")
	want(all)
}
