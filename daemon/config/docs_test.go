package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
)

// TestDocs checks that the examples of docs/config.md together are a valid configuration, and that
// the pages have an example of each kind and link to its keys.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(filepath.Base(file), "start-") {
			all = append(all, text...)
		}
	}
	for name := range kinds.Fleets {
		checkShown(t, all, fleetsKey, "#kind--", name)
	}
	for name := range kinds.Sources {
		checkShown(t, all, sourcesKey, "#source-kind--", name)
	}
	for name := range kinds.Drains {
		if !strings.Contains(string(page), "\n- `\""+name+"\"` ") {
			t.Errorf("docs/config.md does not describe drains of kind %q", name)
		}
	}

	var examples strings.Builder
	for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(page, -1) {
		if omittedIn(block[1]) != "" {
			continue
		}
		examples.Write(block[1])
		examples.WriteString("\n")
	}
	c, err := Parse("docs/config.md", []byte(examples.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Autoscalers) != 4 || len(c.Sources) != 5 || len(c.Autoscalers["checkout"].Spec.Metrics) != 1 {
		t.Errorf("got %d autoscalers and %d sources in the examples", len(c.Autoscalers), len(c.Sources))
	}
}

func checkShown(t *testing.T, all []byte, table, anchor, kind string) {
	t.Helper()
	if !regexp.MustCompile(`\n\[` + table + `\.\w+\]\nkind += "` + kind + `"\n`).Match(all) {
		t.Errorf("docs has no example of kind %q", kind)
	}
	if !bytes.Contains(all, []byte("(config-keys.md"+anchor+kind+")")) {
		t.Errorf("docs does not link to the keys of kind %q", kind)
	}
}
