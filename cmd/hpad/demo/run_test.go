package demo

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hpad/hpad/cmd/hpad/hint"
)

func TestDemoDirIsShortEnoughForASocket(t *testing.T) {
	for name, parent := range map[string]string{
		"usual": t.TempDir(), "too long": filepath.Join(t.TempDir(), strings.Repeat("long", 30)), "relative": "tmp",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", parent)
			dir, err := makeDir()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			if path := filepath.Join(dir, socketName); len(path) > socketPathLimit || !filepath.IsAbs(path) {
				t.Errorf("the socket would be %s, with %d letters", path, len(path))
			}
			if within := strings.HasPrefix(dir, parent+"/"); within != (name == "usual") {
				t.Errorf("the directory is %s, with TMPDIR=%s", dir, parent)
			}
		})
	}
	t.Setenv("TMPDIR", "/nonexistent")
	if _, err := makeDir(); err == nil || hint.Of(err) == "" {
		t.Errorf("error = %v, want one with a hint", err)
	}
}

func TestReservePorts(t *testing.T) {
	queue, worker, err := reservePorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := queue.Addr().(*net.TCPAddr).Port
	if worker != first+1 {
		t.Errorf("the workers' ports begin at %d, want %d", worker, first+1)
	}
	if _, err := reserveBlock(t.Context(), first); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v, want that another demo has the block", err)
	}
	if err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := listenOn(t.Context(), first+Ports)
	if err != nil {
		t.Fatalf("a port of the block is not free again: %v", err)
	}
	if _, err := reserveBlock(t.Context(), first); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error = %v, want that a port of the block is in use", err)
	}
	if err := last.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := reserveBlock(t.Context(), first)
	if err != nil {
		t.Fatalf("the block is not free again: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoShell holds that the demo begins nothing where its processes could not be watched
// over.
func TestNoShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	if err := Run(t.Context(), io.Discard, MinDuration); !errors.Is(err, errNoShell) {
		t.Errorf("Run() = %v, want %v", err, errNoShell)
	}
	if left, err := os.ReadDir(os.TempDir()); len(left) > 0 || err != nil {
		t.Errorf("it left %v, %v", left, err)
	}
}
