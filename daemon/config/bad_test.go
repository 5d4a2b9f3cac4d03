package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/redact"
)

var update = flag.Bool("update", false, "rewrite the messages in testdata/bad")

// TestBad checks the errors for each file of testdata/bad against the .err file next to it.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("glob testdata/bad: %d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		t.Run(name, func(t *testing.T) {
			skipOmitted(t, file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(name+".toml", text)
			mistakes, ok := errors.AsType[Errors](err)
			if !ok || len(mistakes) == 0 {
				t.Fatalf("Parse() = %v, want Errors", err)
			}
			checkFound(t, name+".toml", mistakes)
			got := err.Error() + "\n"
			wanted := strings.TrimSuffix(file, ".toml") + ".err"
			if *update {
				if err := os.WriteFile(wanted, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(wanted)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("messages differ (-want +got):\n%s", diff)
			}
			if shown := redact.Text(got); shown != got {
				t.Errorf("the command line redacts a part of a message:\n%s", cmp.Diff(got, shown))
			}
			if strings.Contains(got, "hunter2") || strings.Contains(got, "12345") {
				t.Errorf("the messages contain a secret:\n%s", got)
			}
		})
	}
}

// checkFound checks that every error has a file, a line, a detail and, unless it is a syntax error,
// a key.
func checkFound(t *testing.T, file string, mistakes Errors) {
	t.Helper()
	for _, mistake := range mistakes {
		syntax := strings.HasPrefix(mistake.Detail, "not valid TOML")
		if mistake.File != file || mistake.Line < 1 || mistake.Key == "" && !syntax || mistake.Detail == "" {
			t.Errorf("incomplete: %#v", mistake)
		}
	}
}
