package demo

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/cmd/hpad/hint"
)

// TestIntroduction compares the introduction with docs/cli.md.
func TestIntroduction(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	intro := introduction(2*time.Minute, "", "")
	if text := strings.Join(intro[:4], "\n"); !strings.Contains(string(page), "\n"+text+"\n") {
		t.Errorf("docs/cli.md lacks the introduction:\n%s", text)
	}
}

// TestConclude checks the result of a demo whose fleet did not grow or not shrink.
func TestConclude(t *testing.T) {
	for name, c := range map[string]struct {
		ups, downs  int
		interrupted bool
		err, hint   string
	}{
		"complete":    {ups: 5, downs: 4},
		"not grown":   {err: "the fleet did not grow", hint: "--for 2m0s"},
		"not shrunk":  {ups: 5, err: "the fleet did not shrink", hint: "--for 2m0s"},
		"interrupted": {ups: 5, interrupted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &display{out: io.Discard, duration: MinDuration, ups: c.ups, downs: c.downs}
			err := s.conclude(c.interrupted)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(hint.Of(err), c.hint) {
				t.Errorf("conclude() = %v with the hint %q, want %q with %q", err, hint.Of(err), c.err, c.hint)
			}
		})
	}
}
