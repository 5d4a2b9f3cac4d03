package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings"
)

// marker is a part of every secret in the tests.
const marker = "hunter2"

// withMarkers returns a TOML value of a type in which every string contains marker: only marker if
// the key has a secret name, and otherwise a URL with marker.
func withMarkers(key string, goType reflect.Type) any {
	switch {
	case goType.Kind() == reflect.Pointer:
		return withMarkers(key, goType.Elem())
	case goType.Kind() == reflect.String && redact.Named(key):
		return marker
	case goType.Kind() == reflect.String:
		return "https://user:" + marker + "@127.0.0.1:9/path?token=" + marker + "&a=b"
	case goType.Kind() == reflect.Slice:
		if value := withMarkers(key, goType.Elem()); value != nil {
			return []any{value}
		}
	case goType.Kind() == reflect.Map && slices.Contains(secretTables, key):
		return map[string]any{"plain": marker}
	case goType.Kind() == reflect.Map:
		return map[string]any{"plain": withMarkers("plain", goType.Elem()), "token": withMarkers("token", goType.Elem())}
	case goType.Kind() == reflect.Struct && !settings.IsValue(goType):
		table := map[string]any{}
		for key, field := range settings.FieldsOf(goType).ByKey {
			if value := withMarkers(key, field.Type); value != nil {
				table[key] = value
			}
		}
		return table
	}
	return nil
}

// TestNoKindShowsSecrets checks that no key of any kind or of autoscalers shows a secret.
func TestNoKindShowsSecrets(t *testing.T) {
	check := func(what string, table any) {
		t.Helper()
		filled, _ := withMarkers(what, reflect.TypeOf(table)).(map[string]any)
		text := (&Config{Written: map[string]Written{join(sourcesKey, "x"): WrittenOf(filled)}}).Redacted()
		if strings.Contains(text, marker) {
			t.Errorf("%s: the output contains a secret:\n%s", what, text)
		}
		if !strings.Contains(text, "redacted") {
			t.Errorf("%s: no value is redacted in\n%s", what, text)
		}
	}
	for name, kind := range kinds.Fleets {
		check("fleet of kind "+name, kind.Config())
		check("target of kind "+name, kind.Target())
	}
	for name, kind := range kinds.Sources {
		check("source of kind "+name, kind.Config())
	}
	for name, kind := range kinds.Drains {
		check("drain of kind "+name, kind.Config())
	}
	check("autoscaler", autoscalerTable{})
	check("daemon", Daemon{})
	check("ha", HA{})
	check("receiver", notify.Config{})
}

// TestSecretsAreKept checks that a secret of the configuration is hidden in any other text, too.
func TestSecretsAreKept(t *testing.T) {
	const text = "[fleets.vm]\nkind = \"process\"\n[fleets.vm.services.web]\ncommand = [\"/bin/true\"]\nenv = { DB_PASSWORD = \"sw0rdfish-of-Web\", LOG_LEVEL = \"Debug-0123\" }\n"
	if _, err := Parse("hpad.toml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if shown := redact.Text("connect with sw0rdfish-of-Web at Debug-0123"); shown != "connect with "+redact.Mark+" at Debug-0123" {
		t.Errorf("the output is shown as %s", shown)
	}
}
