package gcetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Document is a discovery document: the specification of an API.
type Document struct {
	Revision  string               `json:"revision"`
	Resources map[string]*resource `json:"resources"`
	Schemas   map[string]*Schema   `json:"schemas"`

	methods []*Method
}

type resource struct {
	Methods map[string]*Method `json:"methods"`
}

// Method describes a call of the API.
type Method struct {
	ID   string `json:"id"`
	Verb string `json:"httpMethod"`
	Path string `json:"path"`

	segments []string
}

// Schema is the type of a value.
type Schema struct {
	Enum       []string           `json:"enum"`
	Properties map[string]*Schema `json:"properties"`
}

// Discovery returns the discovery document of Compute Engine from the module google.golang.org/api.
var Discovery = sync.OnceValues(func() (*Document, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module google.golang.org/api: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "compute", "v1", "compute-api.json"))
	if err != nil {
		return nil, fmt.Errorf("read the discovery document: %w", err)
	}
	d := &Document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read the discovery document: %w", err)
	}
	for _, r := range d.Resources {
		for _, m := range r.Methods {
			m.segments = strings.Split(m.Path, "/")
			d.methods = append(d.methods, m)
		}
	}
	return d, nil
})

// Find returns the method for an HTTP verb and a path such as "projects/p/zones/z/…", with the
// parameters in the path. It returns nil if there is no such method.
func (d *Document) Find(verb, path string) (*Method, map[string]string) {
	segments := strings.Split(path, "/")
	for _, m := range d.methods {
		if m.Verb != verb || len(m.segments) != len(segments) {
			continue
		}
		if values, ok := m.match(segments); ok {
			return m, values
		}
	}
	return nil, nil
}

func (m *Method) match(segments []string) (map[string]string, bool) {
	values := map[string]string{}
	for i, want := range m.segments {
		name, isValue := strings.CutPrefix(want, "{")
		switch {
		case isValue && segments[i] != "":
			values[strings.TrimSuffix(name, "}")] = segments[i]
		case want != segments[i]:
			return nil, false
		}
	}
	return values, true
}
