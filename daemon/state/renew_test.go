package state

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// contents is all that a store knows.
type contents struct {
	Snapshot Snapshot
	Fleet    map[string][]byte
	History  []int
}

func contentsOf(t *testing.T, s Store) contents {
	t.Helper()
	fleet, err := s.Fleet("f").List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.History(t.Context(), "", time.Time{}, time.Time{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return contents{Snapshot: load(t, s), Fleet: fleet, History: minutes(entries)}
}

// TestRemovedWhileOpen takes away the directory, or files in it, from an open store:
// the next commit, of whatever it is, writes all of it anew, and the next start finds
// it.
func TestRemovedWhileOpen(t *testing.T) {
	removeAll := func(t *testing.T, dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	write := func(t *testing.T, path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		remove func(t *testing.T, dir string)
		told   []string
	}{
		{"the directory", removeAll, []string{"state.db", "history.db"}},
		{"and made again", func(t *testing.T, dir string) {
			removeAll(t, dir)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"state.db", "history.db"}},
		{"renamed", func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		}, []string{"state.db", "history.db"}},
		{"all files", func(t *testing.T, dir string) {
			for _, name := range []string{"lock", "state.db", "history.db"} {
				removeAll(t, filepath.Join(dir, name))
			}
		}, []string{"state.db", "history.db"}},
		{"the state", func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, "state.db")) }, []string{"state.db"}},
		{"the history", func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, "history.db")) }, []string{"history.db"}},
		{"the lock", func(t *testing.T, dir string) { removeAll(t, filepath.Join(dir, "lock")) }, nil},
		{"replaced by other files", func(t *testing.T, dir string) {
			removeAll(t, dir)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "state.db"), "somebody's")
			write(t, filepath.Join(dir, "state.db.new"), "half")
		}, []string{"state.db", ".replaced-", "history.db"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			filled(t, dir)
			s := open(t, dir)
			before := contentsOf(t, s)
			test.remove(t, dir)
			if err := s.Fleet("f").Save(t.Context(), "later", []byte("v")); err != nil {
				t.Fatal(err)
			}
			want := before
			want.Fleet["later"] = []byte("v")
			if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
				t.Errorf("it goes on with something else (-want +got):\n%s", diff)
			}
			if _, err := take(dir, &claim{}, time.Time{}); !errors.As(err, new(*HeldError)) {
				t.Errorf("another claim returns %v", err)
			}
			closeStore(t, s)
			s = open(t, dir)
			defer closeStore(t, s)
			if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
				t.Errorf("the next start finds something else (-want +got):\n%s", diff)
			}
			if test.told == nil {
				wantLosses(t, s)
				return
			}
			wantLosses(t, s, DirectoryPart)
			for _, word := range append(test.told, dir) {
				if told := s.Losses()[0].Message; !strings.Contains(told, word) {
					t.Errorf("told is %q, without %q", told, word)
				}
			}
			for _, name := range []string{"state.db.new", "history.db.new"} {
				if exists(filepath.Join(dir, name)) {
					t.Errorf("%s is left over", name)
				}
			}
		})
	}
}

// TestRemovedBeforeClose takes the directory away after the last commit.
func TestRemovedBeforeClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	s := open(t, dir)
	want := contentsOf(t, s)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if diff := cmp.Diff(want, contentsOf(t, s)); diff != "" {
		t.Errorf("the next start finds something else (-want +got):\n%s", diff)
	}
	wantLosses(t, s, DirectoryPart)
}

// TestRemovedUnderLoad takes the directory away again and again while commits are under
// way: what was committed is there in the end.
func TestRemovedUnderLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	const writers, commits, removals = 4, 40, 5
	deadline := time.Now().Add(time.Minute)
	var writing sync.WaitGroup
	for n := range writers {
		writing.Go(func() {
			for i := range commits {
				name := fmt.Sprintf("%d-%d", n, i)
				changes := Changes{Records: map[string]Record{name: sampleRecord(i)}, Entries: []Entry{sampleEntry(name, i)}}
				write := func() error {
					return errors.Join(s.Commit(t.Context(), changes), s.Fleet("f").Save(t.Context(), name, []byte(name)))
				}
				// It fails while a removal meets a renewal, and is tried again, as the daemon does.
				for err := write(); err != nil; err = write() {
					if time.Now().After(deadline) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for n := range removals {
		for !exists(filepath.Join(dir, stateName)) || !exists(filepath.Join(dir, historyName)) {
			if time.Now().After(deadline) {
				t.Fatal("the directory is not written anew")
			}
			runtime.Gosched()
		}
		if err := os.Rename(dir, fmt.Sprint(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	writing.Wait()
	for s.Commit(t.Context(), Changes{LastRound: epoch}) != nil { // had the last removal met a renewal, or come after it
		if time.Now().After(deadline) {
			t.Fatal("the directory is not written anew")
		}
	}
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	got := contentsOf(t, s)
	if len(got.Snapshot.Autoscalers) != writers*commits || len(got.Fleet) != writers*commits || len(got.History) != writers*commits {
		t.Errorf("%d records, %d values and %d entries, want %d each",
			len(got.Snapshot.Autoscalers), len(got.Fleet), len(got.History), writers*commits)
	}
}

// TestCannotBeWrittenAnew has the directory removed and no way to make it again until
// somebody helps.
func TestCannotBeWrittenAnew(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	dir := filepath.Join(parent, "state")
	filled(t, dir)
	s := open(t, dir).(*store)
	before := contentsOf(t, s)
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(parent, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := s.Commit(t.Context(), Changes{LastRound: epoch})
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "cannot be written anew") {
			t.Errorf("a commit returns %v", err)
		}
	}
	if got := contentsOf(t, s); !cmp.Equal(before, got) {
		t.Error("it forgets what it knows")
	}
	if err := os.Remove(parent); err != nil {
		t.Fatal(err)
	}
	s.renewal.pause = time.Time{} // it is over
	commit(t, s, Changes{LastRound: epoch})
	closeStore(t, s)
	again := open(t, dir)
	defer closeStore(t, again)
	if diff := cmp.Diff(before, contentsOf(t, again)); diff != "" {
		t.Errorf("the next start finds something else (-want +got):\n%s", diff)
	}
}

// TestTakenByAnother removes the directory, and has somebody else hold the one that is
// made in its place: nothing of theirs is touched.
func TestTakenByAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, lockName)
	if err := os.WriteFile(path, []byte(`{"pid":4711,"host":"vm2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if free, err := tryLock(other); err != nil || !free {
		t.Fatal(free, err)
	}
	err = s.Commit(t.Context(), Changes{LastRound: epoch})
	var held *HeldError
	if !errors.As(err, &held) || held.PID != 4711 {
		t.Errorf("the commit returns %v, want a HeldError about process 4711", err)
	}
	if err := s.Close(); !errors.As(err, new(*HeldError)) {
		t.Errorf("closing it returns %v, want that nothing is left of it", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("the other's directory has %v (%v), want the lock alone", names, err)
	}
}

// TestCopyOfADamagedFile: where what is open cannot be trusted any more, it takes no
// place.
func TestCopyOfADamagedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	s := open(t, dir).(*store)
	path := filepath.Join(dir, stateName)
	aside := filepath.Join(t.TempDir(), stateName)
	if err := os.Rename(path, aside); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(aside, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, 3*pageSize), 2*pageSize)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), Changes{LastRound: epoch}); err == nil || !strings.Contains(err.Error(), "is not what it holds") {
		t.Errorf("the commit returns %v", err)
	}
	if exists(path) || exists(path+draftSuffix) {
		t.Error("a damaged copy was left")
	}
	s.Close() //nolint:errcheck // the file is broken
}
