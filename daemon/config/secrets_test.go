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

// withMarkers returns a TOML value of a type in which every string contains marker: a plain one for keys
// in secrets, otherwise a URL.
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
			t.Errorf("%s: a secret is shown:\n%s", what, text)
		}
		if !strings.Contains(text, "redacted") {
			t.Errorf("%s: nothing is hidden in\n%s", what, text)
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

// TestSecretCommands checks the commands and environments of every fleet kind that has them.
func TestSecretCommands(t *testing.T) {
	text := `
[fleets.local]
kind = "process"
[fleets.local.services.worker]
command = ["sh", "-c", "DB_PASSWORD=hunter2 exec worker --queue jobs"]
args    = ["-p", "hunter2", "API_KEY=hunter2", "--broker=amqp://shop:hunter2@127.0.0.1/", "--queue", "jobs"]

[fleets.shop]
kind = "compose"
[[fleets.shop.services."shop/web".pre_stop]]
command     = ["/bin/drain", "--token", "hunter2", "--timeout", "5"]
environment = { GREETING = "hunter2" }

[sources.prom]
kind = "prometheus"
url  = "http://127.0.0.1:9090"

[autoscalers.worker]
target       = { fleet = "local", service = "worker" }
max_replicas = 3
[[autoscalers.worker.metrics]]
type          = "External"
name          = "backlog"
source        = "prom"
query         = "sum(queue_depth{queue='jobs', token='hunter2'})"
select        = { api_key = "hunter2", zone = "a" }
average_value = 5
`
	c, err := Parse("hpad.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shown := c.Redacted()
	if strings.Contains(shown, marker) {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	for _, want := range []string{
		`command = ["sh", "-c", "DB_PASSWORD=<redacted> exec worker --queue jobs"]`,
		`args = ["-p", "<redacted>", "API_KEY=<redacted>", "--broker=amqp://redacted@127.0.0.1/", "--queue", "jobs"]`,
		`command = ["/bin/drain", "--token", "<redacted>", "--timeout", "5"]`,
		`GREETING = "<redacted>"`,
		`query = "sum(queue_depth{queue='jobs', token='<redacted>'})"`,
		`api_key = "<redacted>"`,
		`zone = "a"`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is missing in\n%s", want, shown)
		}
	}
}
