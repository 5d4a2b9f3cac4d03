package proc

import (
	"strings"
	"testing"
)

// TestTail checks that the memory for endless output is bounded.
func TestTail(t *testing.T) {
	last := Tail{Limit: 10}
	for range 1000 {
		_, _ = last.Write([]byte(strings.Repeat("x", 1000)))
	}
	if cap(last.kept) > 100 {
		t.Errorf("a limit of 10 bytes uses %d bytes", cap(last.kept))
	}
	_, _ = last.Write([]byte("yé"))
	_, _ = last.Write([]byte("\n12345678"))
	if got := last.String(); got != "\n12345678" {
		t.Errorf("String() = %q", got)
	}
}
