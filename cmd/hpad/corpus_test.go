package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hpad/hpad/cmd/hpad/draft"
	"github.com/hpad/hpad/cmd/hpad/origin"
	"github.com/hpad/hpad/daemon/config"
)

// separator separates the policies in a file of the corpus.
var separator = regexp.MustCompile(`(?m)^(?:# )?---\n`)

// TestCorpus converts public policies one by one. Each result is a valid configuration after the
// suggested queries and the open decisions about targets are filled in, or the decisions that make it
// invalid are marked. The counts are those in docs/convert.md.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.*")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/convert.md")
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for _, file := range files {
		name := filepath.Base(file)
		if name == "README.md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var policies, complete, open, rejected int
		for i, one := range separator.Split(string(text), -1) {
			policies++
			drafts, failed := convertOne(t, name, one)
			switch {
			case failed:
				rejected++
			case drafts.Decisions() == 0:
				complete++
			default:
				open++
			}
			if drafts != nil {
				checkDraft(t, fmt.Sprintf("%s, policy %d", name, i+1), drafts)
			}
		}
		all += policies
		if row := fmt.Sprintf("| `%s` | %d | %d | %d | %d |", name, policies, complete, open, rejected); !strings.Contains(string(page), row) {
			t.Errorf("docs/convert.md needs the row\n%s", row)
		}
	}
	if all < 200 {
		t.Errorf("the corpus has %d policies, want at least 200", all)
	}
}

// convertOne converts one policy to a target in Nomad with one source.
func convertOne(t *testing.T, file, text string) (converted *draft.Autoscaler, failed bool) {
	t.Helper()
	for _, from := range origins {
		if !from.Recognizes([]byte(text)) {
			continue
		}
		policies, _, err := from.Read(file, []byte(text))
		if err != nil || len(policies) != 1 {
			return nil, true
		}
		return origin.Convert(policies, origin.Choices{Fleet: "prod", Kind: "nomad", Source: "prom"})[0], false
	}
	return nil, true
}

const corpusFleets = "[fleets.prod]\nkind = \"nomad\"\n[sources.prom]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:9090\"\n"

// checkDraft checks that a draft is valid, or that it has open decisions.
func checkDraft(t *testing.T, what string, a *draft.Autoscaler) {
	t.Helper()
	_, err := config.Parse("x.toml", []byte(corpusFleets+a.TOML()))
	if err != nil && a.Decisions() == 0 {
		t.Errorf("%s: %v in\n%s", what, err, a.TOML())
	}
	if err != nil && strings.Contains(err.Error(), "not valid TOML") {
		t.Errorf("%s: %v in\n%s", what, err, a.TOML())
	}
}
