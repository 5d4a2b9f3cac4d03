package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/settings"
)

// marker is a part of every secret in the tests.
const marker = "hunter2"

// mark replaces every string of the configuration below a path with a string that contains marker:
// a plain one for keys in secrets, otherwise a URL. It returns the number of replaced strings.
func mark(path string, value reflect.Value) (count int) {
	if !value.CanSet() {
		return 0
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		return mark(path, value.Elem())
	case reflect.Struct:
		for key, field := range settings.FieldsOf(value.Type()).ByKey {
			if inner, err := value.FieldByIndexErr(field.Index); err == nil {
				at := join(path, key)
				if field.Tag.Get("secret") == "true" {
					at = join(path, "secret")
				}
				count += mark(at, inner)
			}
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		return mark(path, value.Index(0))
	case reflect.Map:
		if value.Type().Key().Kind() != reflect.String {
			return 0
		}
		value.Set(reflect.MakeMap(value.Type()))
		for _, key := range []string{"plain", "token"} {
			element := reflect.New(value.Type().Elem()).Elem()
			count += mark(join(path, key), element)
			value.SetMapIndex(reflect.ValueOf(key).Convert(value.Type().Key()), element)
		}
	case reflect.String:
		text := "https://user:" + marker + "@127.0.0.1:9/path?token=" + marker + "&a=b"
		if parent, last := cutLast(path); redact.Named(last) || strings.HasSuffix(parent, ".secret") {
			text = marker
		}
		value.SetString(text)
		return 1
	}
	return count
}

// TestNoKindShowsSecrets checks that no key of any kind or of autoscalers shows a secret.
func TestNoKindShowsSecrets(t *testing.T) {
	check := func(what string, c *Config) {
		t.Helper()
		text := c.Redacted()
		if strings.Contains(text, marker) {
			t.Errorf("%s: a secret is shown:\n%s", what, text)
		}
		if !strings.Contains(text, "redacted") {
			t.Errorf("%s: nothing is hidden in\n%s", what, text)
		}
	}
	for name, kind := range kinds.Fleets {
		filled := kind.Config()
		if mark("fleets.x", reflect.ValueOf(filled).Elem()) == 0 {
			t.Errorf("a fleet of kind %s has no text", name)
		}
		check("fleet of kind "+name, &Config{Fleets: map[string]Fleet{"x": {Name: "x", Kind: name, Config: filled}}})
		target := kind.Target()
		mark("autoscalers.x.target", reflect.ValueOf(target).Elem())
		check("target of kind "+name, &Config{Autoscalers: map[string]*Autoscaler{"x": {Name: "x", target: target}}})
	}
	for name, kind := range kinds.Sources {
		filled := kind.Config()
		if mark("sources.x", reflect.ValueOf(filled).Elem()) == 0 {
			t.Errorf("a source of kind %s has no text", name)
		}
		check("source of kind "+name, &Config{Sources: map[string]Source{"x": {Name: "x", Kind: name, Config: filled}}})
	}
	for name, kind := range kinds.Drains {
		filled := kind.Config()
		if mark("autoscalers.x.drain", reflect.ValueOf(filled).Elem()) == 0 {
			t.Errorf("a drain of kind %s has no text", name)
		}
		check("drain of kind "+name, &Config{Autoscalers: map[string]*Autoscaler{"x": {Name: "x", Drain: &Drain{Kind: name, Config: filled}}}})
	}
	const query = "https://user:" + marker + "@127.0.0.1:9/"
	check("autoscaler", &Config{Autoscalers: map[string]*Autoscaler{"x": {
		Name: "x", Spec: policy.Spec{Metrics: []policy.MetricSpec{{Type: policy.ExternalMetric, Name: "q"}}}, Inputs: []Input{{Source: "s", Query: query}},
	}}})
	check("daemon", &Config{Daemon: Daemon{WebConfig: query}})
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
		`query = "sum(queue_depth{queue='jobs', token='<redacted>'})"`,
		`api_key = "<redacted>"`,
		`zone = "a"`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is missing in\n%s", want, shown)
		}
	}
}

// TestSecretInMistake checks the error for an invalid value that contains a secret.
func TestSecretInMistake(t *testing.T) {
	_, err := Parse("hpad.toml", []byte("[fleets.x]\nkind = \"process\"\n[fleets.x.services.w]\ncommand = \"worker --token hunter2\"\n"))
	if err == nil || strings.Contains(err.Error(), marker) || !strings.Contains(err.Error(), `"worker --token <redacted>"`) {
		t.Errorf("the mistake is %v", err)
	}
}
