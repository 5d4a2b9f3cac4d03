package demo

import (
	"errors"
	"io"
	"os"
	"testing"
)

// TestNoShell checks that the demo starts nothing if there is no shell.
func TestNoShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	if err := Run(t.Context(), io.Discard, MinDuration); !errors.Is(err, errNoShell) {
		t.Errorf("Run() = %v, want %v", err, errNoShell)
	}
	if left, err := os.ReadDir(os.TempDir()); len(left) > 0 || err != nil {
		t.Errorf("files remain: %v, %v", left, err)
	}
}
