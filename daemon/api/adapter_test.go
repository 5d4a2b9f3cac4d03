package api

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/hpad/hpad/targets/adapter"
)

const (
	adapterDescription = "../../docs/fleets-http.openapi.yaml"
	adapterSchema      = "../../docs/fleets-http.schema.json"
)

// TestAdapterDescription compares the description and the JSON schema of the messages of adapters with
// the types of package adapter.
func TestAdapterDescription(t *testing.T) {
	g := newDescriber(t, "testdata/adapter.yaml")
	placeholders := g.doc.Components.Schemas
	g.doc.Components.Schemas = openapi3.Schemas{}
	for _, message := range []reflect.Type{reflect.TypeFor[adapter.Request](), reflect.TypeFor[adapter.Response]()} {
		g.schema(message)
	}
	g.close()
	for name := range placeholders {
		if g.doc.Components.Schemas[name] == nil {
			t.Errorf("the types do not contain %s", name)
		}
	}
	definitions, err := json.Marshal(g.doc.Components.Schemas)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Messages between hpad and an adapter",
		"oneOf": []map[string]string{{"$ref": "#/$defs/Request"}, {"$ref": "#/$defs/Response"}},
		"$defs": json.RawMessage(strings.ReplaceAll(string(definitions), "#/components/schemas/", "#/$defs/")),
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, map[string]string{adapterDescription: g.text("the types of package adapter"), adapterSchema: string(schema) + "\n"})
}

// close forbids unknown fields in all objects, as hpad does.
func (g *describer) close() {
	no := false
	for _, schema := range g.doc.Components.Schemas {
		if schema.Value != nil && len(schema.Value.Properties) > 0 {
			schema.Value.AdditionalProperties.Has = &no
		}
	}
}

// TestAdapterExamples checks the messages of the page about adapters against the description.
func TestAdapterExamples(t *testing.T) {
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromFile(adapterDescription)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(loader.Context); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/fleets-http.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, block := range strings.Split(string(page), "```json\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(text) {
			name := "Response"
			var message map[string]any
			if err := json.Unmarshal([]byte(line), &message); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if call, ok := message["call"].(string); ok {
				name, seen[call] = "Request", true
			}
			if err := doc.Components.Schemas[name].Value.VisitJSON(message); err != nil {
				t.Errorf("%s is not a valid %s: %v", line, name, err)
			}
			if _, err := adapter.Decode([]byte(line)); name == "Response" && err != nil {
				t.Error(err)
			}
		}
	}
	for _, call := range doc.Components.Schemas["Call"].Value.Enum {
		if !seen[call.(string)] {
			t.Errorf("the page has no example of a request with the call %q", call)
		}
	}
}
