package gcetest

import (
	"strings"
	"testing"
)

// TestHandlers checks that every implemented method exists in the API.
func TestHandlers(t *testing.T) {
	document, err := Discovery()
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]*Method{}
	for _, m := range document.methods {
		methods[strings.TrimPrefix(m.ID, "compute.")] = m
	}
	for id := range handlers {
		m := methods[id]
		if m == nil {
			t.Errorf("the API has no method %s", id)
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(m.Path)
		if found, _ := document.Find(m.Verb, path); found != m {
			t.Errorf("%s %s is %v, want %s", m.Verb, path, found, id)
		}
	}
}

// TestCheck checks that Check finds every deviation from the document.
func TestCheck(t *testing.T) {
	document, err := Discovery()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"right":            {`{"name": "web", "targetSize": 3, "id": "18446744073709551615", "status": {"isStable": true}, "namedPorts": [{"name": "http", "port": 80}]}`, ""},
		"unknown property": {`{"nam": "web"}`, `has no property "nam"`},
		"deep property":    {`{"status": {"stable": true}}`, `.status has no property "stable"`},
		"in an array":      {`{"namedPorts": [{"port": "80"}]}`, ".namedPorts[0].port is a string, want integer"},
		"number for text":  {`{"name": 3}`, ".name is a number, want string"},
		"text for number":  {`{"targetSize": "3"}`, ".targetSize is a string, want integer"},
		"number for id":    {`{"id": 3}`, ".id is a number, want string"},
		"no id":            {`{"id": "web"}`, `.id = "web" is no uint64`},
		"object for text":  {`{"name": {}}`, ".name is an object, want string"},
		"array for object": {`{"status": []}`, ".status is an array, want object"},
		"text for truth":   {`{"status": {"isStable": "yes"}}`, ".isStable is a string, want boolean"},
		"truth for text":   {`{"name": true}`, ".name is a boolean, want string"},
		"unknown value":    {`{"updatePolicy": {"type": "EAGER"}}`, `.type = "EAGER" is none of`},
	} {
		t.Run(name, func(t *testing.T) {
			var value any
			if err := decode([]byte(c.text), &value); err != nil {
				t.Fatal(err)
			}
			wrong := document.Check("group", &Schema{Ref: "InstanceGroupManager"}, value)
			if c.want == "" {
				if len(wrong) > 0 {
					t.Errorf("Check() = %q, want none", wrong)
				}
				return
			}
			if len(wrong) != 1 || !strings.Contains(wrong[0], c.want) {
				t.Errorf("Check() = %q, want %q", wrong, c.want)
			}
		})
	}
}
