package main

import "testing"

func TestArrowsRunDown(t *testing.T) {
	h, err := measure("../../..")
	if err != nil {
		t.Fatal(err)
	}
	graph := h.daemon()
	if len(graph) < 20 {
		t.Fatalf("only %d files and packages of the daemon were read", len(graph))
	}
	_, up := arrange(graph)
	for _, arrow := range up {
		t.Errorf("%s runs back up: move what it names into a file below, or its user into one above", arrow)
	}
}
