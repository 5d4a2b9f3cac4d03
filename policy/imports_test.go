package policy_test

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var allowedImports = []string{"github.com/hpad/hpad/settings", "github.com/hpad/hpad/settings/formula", "cmp", "errors", "fmt", "maps", "math", "math/big", "slices", "strconv", "strings", "time"}

func TestImports(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		files++
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil || !slices.Contains(allowedImports, path) {
				t.Errorf("%s imports %s; want only %s", name, spec.Path.Value, strings.Join(allowedImports, ", "))
			}
		}
	}
	if files == 0 {
		t.Error("no files found")
	}
}
