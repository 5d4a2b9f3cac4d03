// Package docs checks the documentation for consistency.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	anchor  = regexp.MustCompile(`<a id="([^"]+)">`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks checks that every link between pages leads to an existing file and heading.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("glob: %q, %v", pages, err)
	}
	links := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			file, place, _ := strings.Cut(found[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
				continue
			}
			if place != "" && !places(t, target)[place] {
				t.Errorf("%s links to %s: %s lacks the heading", page, found[1], target)
			}
		}
	}
	if links == 0 {
		t.Error("found no links")
	}
}

// read returns a page without its examples.
func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.ReplaceAllString(string(text), "")
}

// places returns the anchors that GitHub generates for a page.
func places(t *testing.T, page string) map[string]bool {
	t.Helper()
	text := read(t, page)
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		slug := strings.ToLower(link.ReplaceAllString(match[1], "]"))
		found[strings.ReplaceAll(dropped.ReplaceAllString(slug, ""), " ", "-")] = true
	}
	for _, match := range anchor.FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return found
}
