package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestPieces holds documents in the smallest pieces against the same ones as a whole.
func TestPieces(t *testing.T) {
	const two = "[autoscalers.a]\nx = 1\n[autoscalers.b]\ny = 2\n"
	for name, test := range map[string]struct {
		text string
		cut  bool
	}{
		"plain":                {"[daemon]\nx = 1\n[fleets.f]\n" + two, true},
		"carriage returns":     {"[fleets.f]\r\n[autoscalers.a]\r\nx = 1\r\n[autoscalers.b]\r\n", true},
		"byte order mark":      {"\ufeff# words\n" + two, true},
		"parts of one":         {"#\n[autoscalers.a]\n[[autoscalers.a.m]]\nx = 1\n[[autoscalers.a.m]]\n[autoscalers.b.c]\n[autoscalers.d]\n", true},
		"fleets behind":        {"[daemon]\n" + two + "[fleets.f]\nx = 1\n", true},
		"begins at once":       {two, true},
		"begins in a string":   {"[autoscalers.a]\nx = \"\"\"\n[autoscalers.b]\n\"\"\"\n", false},
		"nothing to cut":       {"[fleets.f]\n", false},
		"empty":                {"", false},
		"fleets on both sides": {"[fleets.f]\n" + two + "[fleets.g]\n", false},
		"twice":                {"#\n" + two + "[autoscalers.a]\n", false},
		"in two places":        {"#\n" + two + "[autoscalers.c]\n[autoscalers.a.z]\n", false},
		"opened":               {"#\n" + two + "[autoscalers]\n", false},
		"opened twice":         {"[autoscalers]\n" + two + "[autoscalers]\n", false},
		"inline before":        {"autoscalers = { c = {} }\n" + two, false},
		"number before":        {"autoscalers = 3\n" + two, false},
		"dotted before":        {"autoscalers.c.x = 1\n" + two, false},
		"array":                {"#\n[autoscalers.a]\n[[autoscalers]]\n", false},
		"in a string":          {"#\n[autoscalers.a]\nx = \"\"\"\n[autoscalers.b]\n\"\"\"\n[autoscalers.c]\n", false},
		"in a raw string":      {"#\n[autoscalers.a]\nx = '''\n[autoscalers.b]\n'''\n", false},
		"in an array":          {"x = [\n[autoscalers.b]\n]\n", false},
		"no value":             {"#\n[autoscalers.a]\nx =\n[autoscalers.b]\n", false},
		"mistake at the end":   {"#\n" + two + "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := comparePieces(t, []byte(test.text)); got != test.cut {
				t.Errorf("in pieces: %t, want %t", got, test.cut)
			}
		})
	}
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		comparePieces(t, text)
	}
	if !comparePieces(t, benchText(10, true)) {
		t.Error("many autoscalers are parsed as a whole")
	}
}

// comparePieces fails where a document comes to something else in pieces, and reports
// whether it is parsed in pieces.
func comparePieces(t *testing.T, text []byte) bool {
	t.Helper()
	pieces := parsePieces(text, 1)
	if pieces == nil {
		return false
	}
	var whole map[string]any
	if err := toml.Unmarshal(text, &whole); err != nil {
		t.Errorf("%s\nis a mistake only as a whole: %v", text, err)
	}
	if diff := cmp.Diff(whole, pieces); diff != "" {
		t.Errorf("%s\nin pieces (-whole +pieces):\n%s", text, diff)
	}
	return true
}

func FuzzPieces(f *testing.F) {
	f.Add([]byte("[fleets.f]\n[autoscalers.a]\nx = 1\n[autoscalers.b]\n"))
	f.Add([]byte("#\n[autoscalers.a]\nx = \"\"\"\n[autoscalers.b]\n\"\"\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) { comparePieces(t, text) })
}
