package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hpad/hpad/test/internal/installed"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

// TestFullStateDisk fills the file system of state_dir. hpad must keep scaling, and the commands that
// show the status or change something must print the error of the disk.
func TestFullStateDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20, 1)
	name, number := w.autoscaler("steady", "steady")
	dir := filepath.Join(t.TempDir(), "state")
	installed.Mount(t, dir, "size=2m,mode=0700")
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	p := program.Prepare(t, program.Options{Config: w.config.String(), Daemon: daemonTable, State: dir})
	p.Start()
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v, want ENOSPC", err)
	}
	full := unix.ENOSPC.Error()
	prints := func(args ...string) {
		t.Helper()
		wait.For(t, patience, "the error of the disk from hpad "+args[0], func() (string, bool) {
			text, _ := p.CLI(args...)
			return text, strings.Contains(text, full)
		})
	}
	prints("health")
	if text, code := p.CLI("health", "--strict"); code == 0 || !strings.Contains(text, full) {
		t.Errorf("hpad health --strict = %d, %s", code, text)
	}
	count := w.Truth(number).Count
	for _, args := range [][]string{{"get"}, {"pause", name}, {"scale", name, "3", "--force"}, {"resume", name}} {
		if text, _ := p.CLI(args...); !strings.Contains(text, full) {
			t.Errorf("hpad %s = %s, want the error of the disk", args[0], text)
		}
	}
	w.Ask(number, count/2)
	wait.For(t, patience, "a change of the count", func() (string, bool) {
		return "", w.Truth(number).Count == count/2
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "a health without problems", func() (string, bool) {
		text, code := p.CLI("health", "--strict")
		return text, code == 0
	})
}
