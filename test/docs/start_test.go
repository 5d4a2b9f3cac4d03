package docs

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hpad/hpad/sources"
)

// queue returns what the pages' query is at a second of any minute, in milli-units.
func queue(t *testing.T, second int) int64 {
	t.Helper()
	milli, err := sources.Milli(60 + 60*math.Sin(float64(second)*math.Pi/30))
	if err != nil {
		t.Fatal(err)
	}
	return milli
}

// workers returns how many workers a queue takes at 30 for each, of which there is always one.
func workers(queue int64) int { return max(1, int(math.Ceil(float64(queue)/30_000))) }

// change is a row of a history with its second, both counts, the average, and the count that it asks for.
var change = regexp.MustCompile(`(?m)^2026-03-01 12:00:(\d\d)   (\d) → (\d) .* queue \(([0-9.]+) of a goal of 30 per instance\) asks for (\d)\.$`)

// TestTries wants what a reader tries first to collide with no installed hpad, to leave
// nothing, and to show rows that a history has in every minute.
func TestTries(t *testing.T) {
	pages, err := filepath.Glob("../../docs/start-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("glob: %q, %v", pages, err)
	}
	for _, page := range append(pages, "../../README.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if lines := strings.Count(text, "\n"); lines > 60 && page != "../../README.md" {
			t.Errorf("%s has %d lines, want at most 60", page, lines)
		}
		if strings.Contains(text, `"127.0.0.1:4720"`) || !strings.Contains(text, "rm -r /tmp/hpad-try hpad.log") {
			t.Errorf("%s takes the port of an installed hpad, or leaves its directory", page)
		}
		rows := change.FindAllStringSubmatch(text, -1)
		if len(rows) != 2 {
			t.Errorf("%s shows %d changes, want one up and one down", page, len(rows))
		}
		for _, row := range rows {
			second, err := strconv.Atoi(row[1])
			if err != nil {
				t.Fatal(err)
			}
			from, to := workers(queue(t, second-5)), workers(queue(t, second))
			average := strconv.FormatFloat(math.Ceil(float64(queue(t, second))/float64(from))/1000, 'f', -1, 64)
			if want := []string{strconv.Itoa(from), strconv.Itoa(to), average, strconv.Itoa(to)}; strings.Join(row[2:], " ") != strings.Join(want, " ") {
				t.Errorf("%s shows at second %d from, to, average and proposal %q, want %q", page, second, row[2:], want)
			}
		}
	}
}
