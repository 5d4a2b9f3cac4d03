package gcetest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Document is a discovery document: the specification of an API.
type Document struct {
	Revision  string               `json:"revision"`
	Resources map[string]*resource `json:"resources"`
	Schemas   map[string]*Schema   `json:"schemas"`
	// Parameters are the parameters that all methods have in common.
	Parameters map[string]*Schema `json:"parameters"`

	methods []*Method
}

type resource struct {
	Methods map[string]*Method `json:"methods"`
}

// Method is a method of the API.
type Method struct {
	ID         string             `json:"id"`
	Verb       string             `json:"httpMethod"`
	Path       string             `json:"path"`
	Parameters map[string]*Schema `json:"parameters"`
	Request    *Schema            `json:"request"`
	Response   *Schema            `json:"response"`

	segments []string
}

// Schema is the type of a value.
type Schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Location   string             `json:"location"`
	Required   bool               `json:"required"`
	Enum       []string           `json:"enum"`
	Minimum    string             `json:"minimum"`
	Maximum    string             `json:"maximum"`
	Items      *Schema            `json:"items"`
	Properties map[string]*Schema `json:"properties"`
	Additional *Schema            `json:"additionalProperties"`
}

// Discovery returns the discovery document of Compute Engine.
var Discovery = sync.OnceValues(func() (*Document, error) { return discover("compute") })

// tokenDiscovery returns the discovery document of the API for impersonation.
var tokenDiscovery = sync.OnceValues(func() (*Document, error) { return discover("iamcredentials") })

// discover reads a discovery document from the module google.golang.org/api.
func discover(api string) (*Document, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "google.golang.org/api").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module google.golang.org/api: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(dir)), api, "v1", api+"-api.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the discovery document: %w", err)
	}
	d := &Document{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read the discovery document %s: %w", path, err)
	}
	for _, r := range d.Resources {
		for _, m := range r.Methods {
			m.segments = strings.Split(m.Path, "/")
			d.methods = append(d.methods, m)
		}
	}
	return d, nil
}

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

// CheckQuery returns the errors in the query parameters of a request.
func (d *Document) CheckQuery(m *Method, query url.Values) []string {
	var invalid []string
	for name, values := range query {
		schema := m.Parameters[name]
		if schema == nil || schema.Location != "query" {
			schema = d.Parameters[name]
		}
		if schema == nil {
			invalid = append(invalid, fmt.Sprintf("%s has no parameter %q", m.ID, name))
			continue
		}
		for _, value := range values {
			if detail := schema.checkText(value); detail != "" {
				invalid = append(invalid, fmt.Sprintf("%s: parameter %s=%q %s", m.ID, name, value, detail))
			}
		}
	}
	for name, schema := range m.Parameters {
		if schema.Required && schema.Location == "query" && !query.Has(name) {
			invalid = append(invalid, fmt.Sprintf("%s lacks its parameter %q", m.ID, name))
		}
	}
	return invalid
}

// checkText returns the error in a parameter's value, or "".
func (s *Schema) checkText(text string) string {
	switch s.Type {
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "is no integer"
		}
		if minimum, err := strconv.ParseInt(s.Minimum, 10, 64); err == nil && n < minimum {
			return "is less than " + s.Minimum
		}
		if maximum, err := strconv.ParseInt(s.Maximum, 10, 64); err == nil && n > maximum {
			return "is more than " + s.Maximum
		}
	case "boolean":
		if text != "true" && text != "false" {
			return "is no boolean"
		}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return "is none of " + strings.Join(s.Enum, ", ")
	}
	return ""
}

// Check compares a JSON value with a schema and returns the errors. The value must have been
// decoded with UseNumber.
func (d *Document) Check(at string, s *Schema, value any) []string {
	if s.Ref != "" {
		known := d.Schemas[s.Ref]
		if known == nil {
			return []string{fmt.Sprintf("%s: the document has no schema %q", at, s.Ref)}
		}
		return d.Check(at, known, value)
	}
	switch value := value.(type) {
	case map[string]any:
		return d.checkObject(at, s, value)
	case []any:
		if s.Type != "array" {
			return []string{fmt.Sprintf("%s is an array, want %s", at, s.Type)}
		}
		var invalid []string
		for i, element := range value {
			invalid = append(invalid, d.Check(fmt.Sprintf("%s[%d]", at, i), s.Items, element)...)
		}
		return invalid
	case bool:
		if s.Type != "boolean" {
			return []string{fmt.Sprintf("%s is a boolean, want %s", at, s.Type)}
		}
	case json.Number:
		if s.Type != "integer" && s.Type != "number" {
			return []string{fmt.Sprintf("%s is a number, want %s", at, s.Type)}
		}
	case string:
		return s.checkString(at, value)
	}
	return nil
}

func (d *Document) checkObject(at string, s *Schema, value map[string]any) []string {
	if s.Type != "object" {
		return []string{fmt.Sprintf("%s is an object, want %s", at, s.Type)}
	}
	var invalid []string
	for name, element := range value {
		of := s.Properties[name]
		if of == nil {
			of = s.Additional
		}
		if of == nil {
			invalid = append(invalid, fmt.Sprintf("%s has no property %q", at, name))
			continue
		}
		invalid = append(invalid, d.Check(at+"."+name, of, element)...)
	}
	return invalid
}

func (s *Schema) checkString(at, value string) []string {
	if s.Type != "string" {
		return []string{fmt.Sprintf("%s is a string, want %s", at, s.Type)}
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		return []string{fmt.Sprintf("%s = %q is none of %s", at, value, strings.Join(s.Enum, ", "))}
	}
	if s.Format == "uint64" || s.Format == "int64" {
		if _, err := strconv.ParseInt(strings.TrimPrefix(value, "-"), 10, 64); err != nil {
			if _, err := strconv.ParseUint(value, 10, 64); err != nil {
				return []string{fmt.Sprintf("%s = %q is no %s", at, value, s.Format)}
			}
		}
	}
	return nil
}
