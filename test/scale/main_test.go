package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := m.Run()
	program.Clean()
	os.Exit(code)
}

// TestRewrite checks that a section of a page is replaced, and that the rest is unchanged.
func TestRewrite(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("a\n<!-- begin of the bursts of make scale -->\nold\n<!-- end of the bursts of make scale -->\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(page, "tables", "new"); err == nil {
		t.Error("a page without the section was accepted")
	}
	if err := rewrite(page, "bursts", "\nnew\n\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	want := "a\n<!-- begin of the bursts of make scale -->\n\nnew\n\n<!-- end of the bursts of make scale -->\nb\n"
	if err != nil || string(got) != want {
		t.Errorf("page = %q, %v, want %q", got, err, want)
	}
}

// TestSections checks that docs/performance.md has the sections that can be replaced.
func TestSections(t *testing.T) {
	for _, section := range []string{"tables", "steady rows", "bursts"} {
		text, err := os.ReadFile("../../docs/performance.md")
		if err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(page, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rewrite(page, section, ""); err != nil {
			t.Error(err)
		}
	}
}
