package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse checks that no text causes a panic, that every error has a position, and that a valid
// configuration can be written.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.toml", "../../configs/*.toml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("glob %s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("fuzz.toml", text)
		if err == nil {
			if c.Redacted() == "" {
				t.Errorf("the redacted form of a valid configuration is empty")
			}
			return
		}
		mistakes, ok := errors.AsType[Errors](err)
		if !ok || len(mistakes) == 0 {
			t.Fatalf("Parse() = %v, want Errors", err)
		}
		checkFound(t, "fuzz.toml", mistakes)
	})
}
