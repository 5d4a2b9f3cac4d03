package demo

import (
	"errors"
	"io"
	"os"
	"testing"
)

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
