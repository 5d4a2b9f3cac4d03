package main

import (
	"os"
	"strings"
	"testing"
)

// readDoc returns a page of the documentation.
func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestCommandLinePage checks that docs/cli.md describes all commands and flags.
func TestCommandLinePage(t *testing.T) {
	doc := readDoc(t, "cli.md")
	want, err := os.ReadFile("testdata/golden/get-page.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(doc, string(want)) {
		t.Error("docs/cli.md does not contain testdata/golden/get-page.txt")
	}
	for _, command := range newRootCommand(streams{}).Commands() {
		if !strings.Contains(doc, "hpad "+command.Name()) {
			t.Errorf("docs/cli.md does not describe hpad %s", command.Name())
		}
	}
}
