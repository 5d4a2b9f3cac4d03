package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	err := unix.Mount("hpad-test", dir, "tmpfs", 0, "size=2m,mode=0700")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Logf("mount: %v", err)
		return dir, false
	}
	if err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir, true
}

func TestFullDisk(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		const reason = "needs to mount a small file system"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	want := map[string]Record{}
	var full error
	for i := 0; full == nil; i++ {
		name := fmt.Sprint("a", i)
		full = s.Commit(t.Context(), Changes{Records: map[string]Record{name: sampleRecord(i)}})
		if full == nil {
			want[name] = sampleRecord(i)
		} else if i > 10_000 {
			t.Fatal("the file system is never full")
		}
	}
	wantNoRoom(t, full, filepath.Join(dir, "state.db"))
	for range 3 { // the store remains usable while there is space
		if err := s.Commit(t.Context(), Changes{Records: largeRecords(400)}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("another large commit: %v", err)
		}
		if diff := cmp.Diff(want, load(t, s).Autoscalers); diff != "" {
			t.Fatalf("committed state changed (-want +got):\n%s", diff)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	commit(t, s, Changes{Records: map[string]Record{"later": sampleRecord(1)}, Entries: []Entry{sampleEntry("later", 1)}})
	want["later"] = sampleRecord(1)
	closeStore(t, s)
	s = open(t, dir)
	defer closeStore(t, s)
	if diff := cmp.Diff(want, load(t, s).Autoscalers); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func largeRecords(count int) map[string]Record {
	records := map[string]Record{}
	for i := range count {
		records[fmt.Sprint("large", i)] = sampleRecord(i)
	}
	return records
}

func wantNoRoom(t *testing.T, err error, path string) {
	t.Helper()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error = %v, want ENOSPC", err)
	}
	for _, word := range []string{path, "free some space", "write the state"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not mention %q", err, word)
		}
	}
}
