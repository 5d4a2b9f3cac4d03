package api

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPermissionHintNamesTheGroup(t *testing.T) {
	dir := t.TempDir()
	group, err := user.LookupGroupId("0")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if group, err = user.LookupGroupId(strconv.Itoa(os.Getgid())); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "hpad.sock")
	err = NewClient(socket).unreachable(os.NewSyscallError("connect", syscall.EACCES))
	var socketErr *SocketError
	if !errors.As(err, &socketErr) {
		t.Fatalf("error %v, want a SocketError", err)
	}
	// The socket itself cannot be seen, so the directory's group counts.
	want := dir + " belongs to the group " + group.Name
	if !strings.Contains(socketErr.Hint, want) {
		t.Errorf("hint %q, want %q", socketErr.Hint, want)
	}
}
