package main

import "testing"

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
