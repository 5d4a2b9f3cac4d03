package confd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/hint"
)

func smallDir(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("hpad-test", dir, "tmpfs", 0, "size=16k,mode=0755")
	if errors.Is(err, unix.EPERM) && os.Getenv("CI") != "true" {
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

// TestFull checks that an error on a full or read-only file system has a hint and that no changes
// remain.
func TestFull(t *testing.T) {
	for name, test := range map[string]struct {
		flags uintptr
		want  error
		hint  string
	}{
		"full":      {0, syscall.ENOSPC, "free space"},
		"read-only": {unix.MS_RDONLY, syscall.EROFS, "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallDir(t, test.flags)
			a, b := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
			text := []byte(strings.Repeat("# long\n", 4000))
			for attempt, err := range map[string]error{
				"create": confd.Create(b, a, text),
			} {
				if !errors.Is(err, test.want) || !strings.Contains(hint.Of(err), test.hint) || !strings.Contains(err.Error(), dir) {
					t.Errorf("%s: %v", attempt, err)
				}
			}
			if names(t, dir) != "a.toml ballast" || read(t, a) != "one" {
				t.Errorf("left %s, %q", names(t, dir), read(t, a))
			}
		})
	}
}

// TestForbidden checks the hint for a user without write permission.
func TestForbidden(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.toml"), filepath.Join(dir, "b.toml")
	write(t, a, "one", 0o640)
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for name := dir; name != os.TempDir() && name != "/"; name = filepath.Dir(name) {
			if err := os.Chmod(name, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	} else if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	for attempt, err := range map[string]error{
		"create": confd.Create(b, a, []byte("two")),
		"remove": confd.Remove(a),
	} {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(hint.Of(err), "run the command as root") {
			t.Errorf("%s: %v", attempt, err)
		}
	}
	if names(t, dir) != "a.toml" {
		t.Errorf("left %s", names(t, dir))
	}
}
