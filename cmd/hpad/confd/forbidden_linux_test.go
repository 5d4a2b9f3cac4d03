package confd_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/cmd/hpad/confd"
	"github.com/hpad/hpad/cmd/hpad/hint"
)

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
