package guide

import (
	"slices"
	"strings"
	"testing"
)

func TestMissing(t *testing.T) {
	printed := "NAME     REPLICAS   AGE\nworker   3          1m14s\n2026-11-23 23:04:58   1 → 2   because 51.564 of 30\n"
	for _, c := range []struct {
		sample string
		want   []string
	}{
		{"NAME   REPLICAS   AGE\nworker   12   5s\n...\n2026-01-01 01:02:03   4 → 5   because 7 of 30", nil},
		{"worker   3   five", []string{"worker   3   five"}},
		{"other   3   5s", []string{"other   3   5s"}},
	} {
		if got := Missing(strings.Split(c.sample, "\n"), printed); !slices.Equal(got, c.want) {
			t.Errorf("%q: missing %q, want %q", c.sample, got, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	text := "Save this as `a.toml`:\n\n```toml\nx = 1\n```\n\nThen:\n\n```sh\nrun it\n```\n\n```console\n$ one\nsays\n$ two\n```\n\n```sh\nnot this\n```\n"
	p := &Page{Path: "page", Skip: map[string]string{"not this": "a reason"}}
	files, steps := read(t, p, text)
	if files["a.toml"] != "x = 1\n" || len(files) != 1 {
		t.Errorf("files: %q", files)
	}
	want := []step{{command: "run it\n"}, {command: "one", shown: []string{"says"}}, {command: "two"}}
	if !slices.EqualFunc(steps, want, func(a, b step) bool { return a.command == b.command && slices.Equal(a.shown, b.shown) }) {
		t.Errorf("steps: %q, want %q", steps, want)
	}
}

// TestRun runs commands that share a shell, over a file with something replaced.
func TestRun(t *testing.T) {
	said := Run(t, &Page{Path: "testdata/page.md", Replace: map[string]string{"a port": "8080"}})
	if said["cat note"] != "at 8080\n" {
		t.Errorf("it said %q", said)
	}
}
