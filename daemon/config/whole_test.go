package config

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
)

// TestEveryKindHasAnExample checks that configs contains an example for every kind of fleet and
// source, with the name of the kind.
func TestEveryKindHasAnExample(t *testing.T) {
	for name := range kinds.Fleets {
		t.Run(name, func(t *testing.T) {
			c := example(t, name)
			if !slices.ContainsFunc(slices.Collect(maps.Values(c.Fleets)), func(fleet Fleet) bool { return fleet.Kind == name }) {
				t.Errorf("configs/%s.toml has no fleet of that kind", name)
			}
		})
	}
	for name := range kinds.Sources {
		t.Run(name, func(t *testing.T) {
			c := example(t, name)
			if !slices.ContainsFunc(slices.Collect(maps.Values(c.Sources)), func(source Source) bool { return source.Kind == name }) {
				t.Errorf("configs/%s.toml has no source of that kind", name)
			}
		})
	}
}

func example(t *testing.T, kind string) *Config {
	t.Helper()
	file := "../../configs/" + kind + ".toml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("a kind has an example that is named like it: %v", err)
	}
	if text[0] != '#' {
		t.Errorf("%s does not begin with a comment that says what it shows", file)
	}
	c, err := LoadFiles(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestWholeConfiguration checks that configs/hpad.toml contains every key of the daemon and of
// autoscalers, at least in a comment.
func TestWholeConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../configs/hpad.toml")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	collectKeys(reflect.TypeFor[Daemon](), keys)
	collectKeys(reflect.TypeFor[autoscalerTable](), keys)
	collectKeys(reflect.TypeFor[targetTable](), keys)
	for key := range keys {
		if !regexp.MustCompile(`\b` + key + `( *=|\]|\.)`).Match(text) {
			t.Errorf("configs/hpad.toml does not show %q", key)
		}
	}
}
