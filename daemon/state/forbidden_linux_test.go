package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForbidden holds that who may not use what is there gets an error that says what
// to do, and changes nothing.
func TestForbidden(t *testing.T) {
	for _, name := range []string{"state.db", "history.db"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			closeStore(t, open(t, dir))
			nobody(t, dir, name)
			_, err := Open(dir, Options{})
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "chown -R") {
				t.Errorf("Open() = %v, want who has to own the directory", err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
				t.Errorf("the directory has %v, %v; want the two files", entries, err)
			}
		})
	}
}

// nobody has the test go on as somebody who may use the directory and all of its
// files but one.
func nobody(t *testing.T, dir, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	const id = 65534
	for above := filepath.Dir(dir); above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"", "state.db", "history.db"} {
		if path == name {
			continue
		}
		if err := os.Chown(filepath.Join(dir, path), id, id); err != nil {
			t.Fatal(err)
		}
	}
	// Only this thread becomes nobody, and only for files.
	runtime.LockOSThread()
	if err := unix.Setfsuid(id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Setfsuid(0)
		runtime.UnlockOSThread()
	})
}
