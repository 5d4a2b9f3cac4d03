package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/explain"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden compares what people read with files that people reviewed.
func TestGolden(t *testing.T) {
	list := scenarios().list
	pages := map[string]func(io.Writer) error{
		"get.txt":      func(w io.Writer) error { return writeTable(w, list, false, now) },
		"get-wide.txt": func(w io.Writer) error { return writeTable(w, list, true, now) },
		"get-fine.txt": func(w io.Writer) error { return writeTable(w, list[2:3], false, now) },
	}
	for _, view := range list {
		file := strings.ReplaceAll(view.Name, "/", "-") + ".txt"
		pages["describe-"+file] = func(w io.Writer) error { return writeDescription(w, view, now) }
		pages["explain-"+file] = func(w io.Writer) error { return explain.Write(w, view.Explanation()) }
	}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := page(&got); err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name, got.Bytes())
		})
	}
}

// compareGolden compares with a golden file, or rewrites it.
func compareGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-want +got); -update rewrites it:\n%s", file, diff)
	}
}
