package demo

import (
	"os"
	"strings"
	"testing"
	"time"
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
