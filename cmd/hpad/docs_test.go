package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/hpad/hpad/policy"
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

// TestAPIPage checks that the examples in docs/api.md are valid JSON, and that the example of a
// decision has no unknown fields.
func TestAPIPage(t *testing.T) {
	blocks := strings.Split(readDoc(t, "api.md"), "```json\n")[1:]
	decisions := 0
	for _, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		for decoder := json.NewDecoder(strings.NewReader(text)); ; {
			var value any
			err := decoder.Decode(&value)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("example is not valid JSON: %v\n%s", err, text)
			}
			if object, _ := value.(map[string]any); object["case"] == nil {
				continue
			}
			decisions++
			strict := json.NewDecoder(strings.NewReader(text))
			strict.DisallowUnknownFields()
			if err := strict.Decode(new(policy.Decision)); err != nil {
				t.Errorf("example of a decision: %v", err)
			}
		}
	}
	if len(blocks) < 3 || decisions != 1 {
		t.Errorf("docs/api.md has %d examples and %d decisions, want at least 3 and 1", len(blocks), decisions)
	}
}
