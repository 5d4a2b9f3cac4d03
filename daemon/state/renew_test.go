package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// contents contains everything that a store returns.
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

func TestRenewFails(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	dir := filepath.Join(parent, "state")
	filled(t, dir)
	s := open(t, dir).(*store)
	before := contentsOf(t, s)
	for _, path := range []string{parent, filepath.Join(dir, "state.db")} { // a missing directory and a different file
		if err := os.RemoveAll(parent); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.Commit(t.Context(), Changes{LastRound: epoch})
		if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "recreate state directory") {
			t.Errorf("Commit = %v", err)
		}
	}
	if got := contentsOf(t, s); !cmp.Equal(before, got) {
		t.Error("the open store lost data")
	}
	if err := os.RemoveAll(parent); err != nil {
		t.Fatal(err)
	}
	commit(t, s, Changes{LastRound: epoch})
	closeStore(t, s)
	again := open(t, dir)
	defer closeStore(t, again)
	if diff := cmp.Diff(before, contentsOf(t, again)); diff != "" {
		t.Errorf("state after the next start (-want +got):\n%s", diff)
	}
}

// TestDirectoryReplaced checks that a store does not change the files of another process if that
// process uses a new directory at the same path.
func TestDirectoryReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	filled(t, dir)
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	other := open(t, dir)
	if err := s.Commit(t.Context(), Changes{LastRound: epoch}); !errors.As(err, new(*heldError)) {
		t.Errorf("Commit = %v, want a heldError", err)
	}
	if err := s.Close(); !errors.As(err, new(*heldError)) {
		t.Errorf("Close = %v, want a heldError", err)
	}
	commit(t, other, Changes{LastRound: epoch})
	closeStore(t, other)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("files in the other process's directory = %v (%v), want its two files", names, err)
	}
}
