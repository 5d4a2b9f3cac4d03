package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/sources"
	"github.com/hpad/hpad/sources/document"
	"github.com/hpad/hpad/sources/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSource(t *testing.T, cfg Config, env sources.Env) *document.Source {
	t.Helper()
	cfg.SetDefaults()
	for _, fieldErr := range cfg.Validate() {
		t.Fatal(fieldErr)
	}
	built, err := cfg.Build("local", env)
	if err != nil {
		t.Fatal(err)
	}
	source, _ := built.(*document.Source)
	t.Cleanup(func() { _ = source.Close() })
	return source
}

func TestContract(t *testing.T) {
	script := filepath.Join(t.TempDir(), "depths")
	var text strings.Builder
	text.WriteString("#!/bin/sh\ncat <<END\n")
	for name, value := range sourcetest.Series {
		fmt.Fprintf(&text, "depth{queue=%q} %v\n", name, value)
	}
	if err := os.WriteFile(script, []byte(text.String()+"END\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sourcetest.Run(t, sourcetest.Kind{
		Start: func(t *testing.T, env sources.Env) (sources.Source, string) {
			return newSource(t, Config{Command: []string{script}, Format: document.Prometheus}, env), "depth"
		},
		Missing: "width", Invalid: "sum(",
		Fail: func() {
			if err := os.Remove(script); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// TestRuns checks the value, or the error with the exit status and the last line of the standard error, of
// programs that work and fail in several ways.
func TestRuns(t *testing.T) {
	t.Setenv("HPAD_TEST", "1")
	for script, want := range map[string]string{
		`echo "${HPAD_TEST:-42}"`:                        "42",
		`echo "$EXTRA"`:                                  "7",
		`test -n "$PATH" && echo 3`:                      "3",
		`echo one >&2; echo 'no such table' >&2; exit 2`: `source "local" at "/bin/sh": exit status 2: no such table`,
		`echo 5; exit 1`:                                 `source "local" at "/bin/sh": exit status 1`,
		`true`:                                           "the document is not a number; the document is empty",
		`echo none`:                                      `the document is not a number; the document is "none"`,
		`yes`:                                            `source "local" at "/bin/sh": killed: the output has more than 1000 bytes: print less, or increase max_size`,
		`kill -9 $$`:                                     `source "local" at "/bin/sh": signal: killed`,
	} {
		source := newSource(t, Config{Command: []string{"/bin/sh", "-c", script}, Env: map[string]string{"EXTRA": "7"}, Limits: document.Limits{MaxSize: 1000}}, sources.Env{})
		vector, err := source.Query(t.Context(), sources.Query{}, time.Now())
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(vector.Series[0].Value)
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

func TestTimeout(t *testing.T) {
	source := newSource(t, Config{Command: []string{"sleep", "300"}, Limits: document.Limits{Timeout: 100 * time.Millisecond}}, sources.Env{})
	const want = `source "local" at "sleep": killed: no complete document within the timeout of 100ms (sources.local.timeout)`
	if _, err := source.Query(t.Context(), sources.Query{}, time.Now()); err == nil || err.Error() != want {
		t.Errorf("error = %v\nwant %s", err, want)
	}
}

func TestValidate(t *testing.T) {
	cfg := Config{Command: []string{""}, Env: map[string]string{"A=B": "1", "C": "\x00", "D": "1"}, Format: "xml", Limits: document.Limits{MaxSize: 17 << 20, MaxAge: time.Millisecond}}
	cfg.SetDefaults()
	var got []string
	for _, fieldErr := range cfg.Validate() {
		got = append(got, fieldErr.Field)
	}
	if text := strings.Join(got, " "); text != "command format max_age max_size env.A=B env.C" && text != "format max_age max_size command env.A=B env.C" {
		t.Errorf("invalid fields = %s", text)
	}
}
