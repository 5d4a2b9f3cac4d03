package daemon

import (
	"strings"
	"testing"
)

// TestLastLine checks that the last line is short and has no secrets.
func TestLastLine(t *testing.T) {
	long := strings.Repeat("é", maxLastOutput+1)
	for output, want := range map[string]string{
		"":                          "",
		"first\nlast\n \n\n":        "last",
		"a\xff":                     "a\ufffd",
		long:                        long[:2*(maxLastOutput-1)] + "…",
		"dial amqp://me:hunter22@q": "dial amqp://redacted@q",
	} {
		if got := lastLine(output); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", output, got, want)
		}
	}
}
