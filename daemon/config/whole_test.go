package config

import (
	"os"
	"reflect"
	"regexp"
	"testing"
)

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
