package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// heldEnv makes the test binary a daemon that has the directory and does nothing.
const heldEnv = "HPAD_TEST_HOLD_UNTIL_KILLED"

// holdUntilKilled holds a directory until its standard input ends.
func holdUntilKilled(dir string) {
	s, err := Open(dir, Options{})
	if err == nil {
		fmt.Println("held")
		_, err = io.Copy(io.Discard, os.Stdin)
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// holdElsewhere has another process hold the directory until the test ends.
func holdElsewhere(t *testing.T, dir string, attributes *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), heldEnv+"="+dir)
	process.SysProcAttr = attributes
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = process.Wait() // killed, where the test ended early
	})
	if said, err := io.ReadAll(io.LimitReader(output, 5)); err != nil || string(said) != "held\n" {
		t.Fatalf("the other process says %q, %v", said, err)
	}
	return process
}

// empty removes all that is in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{lockName, stateName, historyName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHeldThroughAnyPath reaches the directory of another process by another path, and
// when its files were removed.
func TestHeldThroughAnyPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	process := holdElsewhere(t, dir, nil)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		_, err := take(path, &claim{}, time.Time{})
		if held := new(HeldError); !errors.As(err, &held) || held.PID != process.Process.Pid || held.Dir != path {
			t.Errorf("%s: claiming it returns %v, want a HeldError about process %d", path, err, process.Process.Pid)
		}
	}
	empty(t, dir)
	if _, err := take(dir, &claim{}, time.Time{}); !errors.As(err, new(*HeldError)) {
		t.Errorf("emptied: claiming it returns %v, want a HeldError", err)
	}
}
