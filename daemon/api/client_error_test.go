package api

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPermissionHint(t *testing.T) {
	dir := t.TempDir()
	hint := func() string {
		// The socket itself is not there to be seen, so the directory's group counts.
		socket := filepath.Join(dir, "hpad.sock")
		var reachErr *ReachError
		if err := NewClient(socket).unreachable(os.NewSyscallError("connect", syscall.EACCES)); !errors.As(err, &reachErr) {
			t.Fatalf("error %v, want a ReachError", err)
		}
		return reachErr.Hint
	}
	if name, group := socketGroup(filepath.Join(dir, "hpad.sock")); name != dir || group == "" {
		t.Fatalf("group %q of %q, want one of %q", group, name, dir)
	} else if group != "root" {
		if want := dir + " belongs to the group " + group; !strings.Contains(hint(), want) {
			t.Errorf("hint %q, want %q", hint(), want)
		}
		return
	}
	if got := hint(); strings.Contains(got, "usermod") || !strings.Contains(got, "as root") {
		t.Errorf("hint %q, want one that sends nobody into root's group", got)
	}
	// A group without a name is called by its number.
	if err := os.Chown(dir, -1, 54321); err != nil {
		t.Fatal(err)
	}
	if want := dir + " belongs to the group 54321: "; !strings.Contains(hint(), want) {
		t.Errorf("hint %q, want %q", hint(), want)
	}
}
