package config

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nested returns a text of n opening parts, a middle and n closing parts.
func nested(n int, open, middle, closing string) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
}

// TestLimits checks that a configuration whose parsing would take hours or gigabytes is rejected.
func TestLimits(t *testing.T) {
	const many, tooMany = 200_000, "the configuration has 1000 errors or more"
	withQuery := func(query string) string {
		return fmt.Sprintf(`[fleets.f]
kind = "nomad"
[sources.p]
kind = "prometheus"
url = "http://127.0.0.1:9090"
[autoscalers.a]
target = { fleet = "f", job = "j", group = "g" }
max_replicas = 3
metrics = [{ type = "External", name = "n", source = "p", value = 1, query = %q }]
`, query)
	}
	numbered := func(format string) string {
		var text strings.Builder
		for i := range many / 4 {
			fmt.Fprintf(&text, format, i)
		}
		return text.String()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for name, c := range map[string]struct{ text, message string }{
		"dotted key":           {nested(many, "a.", "a", "") + " = 1\n", "nested"},
		"table":                {"[" + nested(many, "a.", "a", "") + "]\n", "nested"},
		"array of tables":      {"[[" + nested(many, "\"a\" . ", "a", "") + "]]\n", "nested"},
		"array":                {"a = " + nested(many, "[", "", "]"), "nested"},
		"array on many lines":  {"a = " + nested(many, "[ # comment\n", "", "]"), "nested"},
		"unclosed array":       {"a = " + nested(many, "[", "", ""), "nested"},
		"inline table":         {"a = " + nested(many, "{a=", "1", "}"), "nested"},
		"mixed":                {"a = " + nested(many, "[{a.b=", "1", "}]"), "nested"},
		"many deep tables":     {strings.Repeat("["+nested(100, "b.", "b", "")+"]\n", 10_000), "nested"},
		"after a string":       {"a = \"\\\"[\"\nb = '\\'\nc = '''[[['''\nd = \"\"\"\"[\"\"\"\ne = " + nested(many, "[", "", "]"), "nested"},
		"elements":             {"a = [" + strings.Repeat("1,", maxLines+1) + "]\n", "million lines"},
		"lines":                {strings.Repeat("\n", maxLines+1), "million lines"},
		"size":                 {"# " + strings.Repeat("x", maxSize), "MiB"},
		"parentheses in query": {withQuery(nested(many/2, "(", "1", ")")), "bytes"},
		"signs in query":       {withQuery(nested(many/2, "-", "1", "")), "bytes"},
		"sums in query":        {withQuery(nested(many/2, "1+", "1", "")), "bytes"},
		"unknown tables":       {numbered("[unknown%d]\n"), tooMany},
		"unknown keys":         {"[daemon]\n" + numbered("unknown%d = 1\n"), tooMany},
		"unknown subtables":    {"[fleets.f]\nkind = \"nomad\"\n" + numbered("[fleets.f.unknown%d]\n"), tooMany},
		"keys of autoscalers":  {numbered("[autoscalers.a%d]\nmin_replicass = 3\n"), tooMany},
		"wrong types":          {"[autoscalers.a]\nmetrics = [" + numbered("%d, ") + "]\n", tooMany},
		"receivers":            {numbered("[notifications.n%d]\n"), tooMany},
	} {
		done := make(chan error, 1)
		go func() {
			_, err := Parse("hpad.toml", []byte(c.text))
			done <- err
		}()
		select {
		case err := <-done:
			limit := 2000
			if c.message == tooMany {
				limit = 500 * (maxErrors + 10)
			}
			if err == nil || !strings.Contains(err.Error(), c.message) || len(err.Error()) > limit {
				t.Errorf("%s: the error is %.300v, want %q", name, err, c.message)
			}
		case <-ctx.Done():
			t.Fatalf("%s: the check did not end", name)
		}
	}
}

// TestMeasureOfValid checks that strings, comments and numbers have no depth.
func TestMeasureOfValid(t *testing.T) {
	deep := strings.Repeat("[.{", 100)
	for _, text := range []string{
		"# " + deep, "a = \"" + deep + "\"", "a = '" + deep + "'", "a = \"\"\"\n" + deep + "\n\"\"\"", "a = '''\n" + deep + "\n'''",
		"a = [" + strings.Repeat("1.5, ", 100) + "]", strings.Repeat("a.b = 1.5\n", 100), strings.Repeat("[a.b]\n", 100), strings.Repeat("[[a.b]]\nc = { d.e = [1.5] }\n", 100),
		"a = \"\\\\\" # " + deep, "a = \"\"\"x\"\"\"\" # " + deep,
	} {
		if _, line := measure([]byte(text)); line > 0 {
			t.Errorf("line %d of %.60q is too deep", line, text)
		}
	}
}

// TestLoadEndsWithContext checks that a load that waits for a file ends with its context.
func TestLoadEndsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hpad.toml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	time.AfterFunc(time.Millisecond, func() { cancel(stopped) })
	if _, err := Load(ctx, path); !errors.Is(err, stopped) {
		t.Errorf("Load: %v", err)
	}
	if _, _, err := Check(ctx, path); !errors.Is(err, stopped) {
		t.Errorf("Check: %v", err)
	}
	if _, err := LoadFleets(ctx, path); !errors.Is(err, stopped) {
		t.Errorf("LoadFleets: %v", err)
	}
}
