package confd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/daemon/config/confd"
)

// smallDir answers a directory on a file system of 16 kB, of which nothing is
// left but a few bytes.
func smallDir(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("hpad-test", dir, "tmpfs", 0, "size=16k,mode=0755")
	if errors.Is(err, unix.EPERM) {
		t.Skip("mounting a small file system needs CAP_SYS_ADMIN")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(dir, "a.toml"), "one", 0o644)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the file system: %v", err)
	}
	if flags != 0 {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, "size=16k"); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFull holds that on a full or read-only file system nothing changes, nothing
// is left behind, and the error says what to do.
func TestFull(t *testing.T) {
	for name, test := range map[string]struct {
		flags uintptr
		want  error
		hint  string
	}{
		"full":      {0, syscall.ENOSPC, "make room"},
		"read-only": {unix.MS_RDONLY, syscall.EROFS, "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallDir(t, test.flags)
			a, b := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
			text := []byte(strings.Repeat("# long\n", 4000))
			for attempt, err := range map[string]error{
				"create":  confd.Create(b, a, text),
				"replace": confd.Replace(a, text),
			} {
				if !errors.Is(err, test.want) || !strings.Contains(hint(t, err), test.hint) || !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: %v", attempt, err)
				}
			}
			if names(t, dir) != "a.toml ballast" || read(t, a) != "one" {
				t.Errorf("left %s, %q", names(t, dir), read(t, a))
			}
		})
	}
}
