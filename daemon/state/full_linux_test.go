package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of 2 MiB; false where that is not permitted.
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

// TestRemovedFromAUnit removes the directory of a store that may write to nothing else, as
// in the unit of systemd: it cannot be made again, and the error says how to save the
// files, which the open ones still are.
func TestRemovedFromAUnit(t *testing.T) {
	disk, ok := smallDisk(t)
	if !ok {
		t.Log("a file system may not be mounted here, so there is no such unit")
		return
	}
	above := filepath.Join(disk, "lib")
	dir := filepath.Join(above, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	mount := func(from, to string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(from, to, "", unix.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
		if flags == 0 {
			t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) }) // one of them is gone by then
		}
	}
	mount(disk, outside, 0)
	mount(above, above, 0)
	mount(dir, dir, 0)
	mount("", above, unix.MS_REMOUNT|unix.MS_RDONLY)
	s := open(t, dir)
	commit(t, s, Changes{Records: map[string]Record{"a": sampleRecord(1)}})
	// What a removal does in whose sight it is no mount.
	if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.RemoveAll(filepath.Join(outside, "lib", "state"))); err != nil {
		t.Fatal(err)
	}
	fds := fmt.Sprintf("/proc/%d/fd", os.Getpid())
	err := s.Commit(t.Context(), Changes{LastRound: epoch})
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), fds) {
		t.Fatalf("the commit returns %v, want that the files can be saved from %s", err, fds)
	}
	saved := t.TempDir()
	for _, name := range []string{stateName, historyName} {
		find := exec.Command("find", fds, "-lname", "*"+name+" (deleted)", "-exec", "cp", "{}", filepath.Join(saved, name), ";")
		// It fails where a file of another test is closed meanwhile.
		output, err := find.CombinedOutput()
		if _, missing := os.Stat(filepath.Join(saved, name)); missing != nil {
			t.Fatalf("%s was not saved: %v: %s", name, err, output)
		}
	}
	s.Close() //nolint:errcheck // it cannot be written anew
	again := open(t, saved)
	defer closeStore(t, again)
	if got := load(t, again); len(got.Autoscalers) != 1 {
		t.Errorf("%d records were saved, want 1", len(got.Autoscalers))
	}
}

// TestFullDisk runs out of room, wants an error, and goes on when there is some again.
func TestFullDisk(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		t.Log("a file system may not be mounted here, so bbolt is told that there is no room")
		testNoRoom(t, dir)
		return
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
			t.Fatal("the file system never gets full")
		}
	}
	wantNoRoom(t, full, filepath.Join(dir, "state.db"))
	for range 3 { // it stays usable, as far as there is room
		if err := s.Commit(t.Context(), Changes{Records: largeRecords(400)}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("another large commit answers %v", err)
		}
		if diff := cmp.Diff(want, load(t, s).Autoscalers); diff != "" {
			t.Fatalf("what was committed has changed (-want +got):\n%s", diff)
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

// TestOpenOnFullDisk finds no room for a new store.
func TestOpenOnFullDisk(t *testing.T) {
	dir, ok := smallDisk(t)
	if !ok {
		const reason = "needs to mount a small file system: making a new file cannot be made to fail otherwise"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	_, err := Open(dir, Options{})
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, "state.db")) {
		t.Errorf("open answers %v", err)
	}
	var damage *DamagedError
	if errors.As(err, &damage) {
		t.Errorf("a full disk is taken for damage: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	closeStore(t, open(t, dir))
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
		t.Fatalf("error %v, want one of no room", err)
	}
	for _, word := range []string{path, "make room", "1 autoscalers"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not mention %q", err, word)
		}
	}
}

// testNoRoom fails a transaction as a full disk does.
func testNoRoom(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir).(*store)
	defer closeStore(t, s)
	err := s.state.update(func(*bolt.Tx) error { return &os.PathError{Op: "write", Path: "state.db", Err: unix.ENOSPC} })
	err = unwritten(s.state.path, err)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("the commit answers %v", err)
	}
	commit(t, s, Changes{LastRound: epoch})
	if got := load(t, s).LastRound; !got.Equal(epoch) {
		t.Errorf("last round %s after a failure, want %s", got, epoch.Format(time.RFC3339))
	}
}
