package main

import "testing"

func TestCount(t *testing.T) {
	text := "// Package a.\npackage a\n\n/* a\nb */ var b = `c\n\nd` // e\n\nfunc f() {\n\t// g\n}\n"
	if got, want := count([]byte(text)), (lines{all: 11, code: 6}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNoUpwardReferences checks that no file in the daemon references a file above it.
func TestNoUpwardReferences(t *testing.T) {
	source, err := measure("../../..")
	if err != nil {
		t.Fatal(err)
	}
	graph := source.daemon()
	if len(graph) < 20 {
		t.Fatalf("read only %d files and packages of the daemon", len(graph))
	}
	_, up := arrange(graph)
	for _, reference := range up {
		t.Errorf("%s points upwards: move the declaration to a lower file, or its user to a higher one", reference)
	}
}
