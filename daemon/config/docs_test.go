package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/daemon/notify"
	"github.com/hpad/hpad/settings"
)

// TestDocs holds that docs/config.md names every key, and that its examples are
// configurations once they are together.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{kindKey: true, daemonKey: true, fleetsKey: true, sourcesKey: true, autoscalersKey: true, notifyKey: true}
	collectKeys(reflect.TypeFor[Daemon](), keys)
	collectKeys(reflect.TypeFor[autoscalerTable](), keys)
	collectKeys(reflect.TypeFor[targetTable](), keys)
	collectKeys(reflect.TypeFor[Drain](), keys)
	collectKeys(reflect.TypeFor[notify.Config](), keys)
	for name, kind := range kinds.Drains {
		keys[name] = true
		collectKeys(reflect.TypeOf(kind.Config()), keys)
	}
	for name, kind := range builtIn.fleets {
		keys[name] = true
		collectKeys(reflect.TypeOf(kind.Config()), keys)
		collectKeys(reflect.TypeOf(kind.Target()), keys)
	}
	for name, kind := range builtIn.sources {
		keys[name] = true
		collectKeys(reflect.TypeOf(kind.Config()), keys)
	}
	for key := range keys {
		if !regexp.MustCompile("[`\"\\[]" + key + "[`\".\\]]").Match(page) {
			t.Errorf("docs/config.md does not name %q", key)
		}
	}

	var examples strings.Builder
	for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(page, -1) {
		if omittedIn(block[1]) != "" {
			continue
		}
		examples.Write(block[1])
		examples.WriteString("\n")
	}
	c, err := Parse("docs/config.md", []byte(examples.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Autoscalers) != 1 || len(c.Sources) != 2 || len(c.Autoscalers["checkout"].Spec.Metrics) != 1 {
		t.Errorf("the examples hold %d autoscalers and %d sources", len(c.Autoscalers), len(c.Sources))
	}
}

// collectKeys adds every key of a type and of the types inside of it.
func collectKeys(goType reflect.Type, keys map[string]bool) {
	for goType.Kind() == reflect.Pointer || goType.Kind() == reflect.Slice || goType.Kind() == reflect.Map {
		goType = goType.Elem()
	}
	if goType.Kind() != reflect.Struct || settings.IsValue(goType) {
		return
	}
	for key, field := range settings.FieldsOf(goType).ByKey {
		keys[key] = true
		collectKeys(field.Type, keys)
	}
}
