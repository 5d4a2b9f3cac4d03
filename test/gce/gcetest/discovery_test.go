package gcetest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestHandlers: every method that is imitated is one of the API.
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

// TestCheck: what the document does not have is found, wherever it is.
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
					t.Errorf("Check() = %q, want nothing", wrong)
				}
				return
			}
			if len(wrong) != 1 || !strings.Contains(wrong[0], c.want) {
				t.Errorf("Check() = %q, want %q", wrong, c.want)
			}
		})
	}
}

func TestCheckQuery(t *testing.T) {
	document, err := Discovery()
	if err != nil {
		t.Fatal(err)
	}
	resize, _ := document.Find(http.MethodPost, "projects/p/zones/z/instanceGroupManagers/g/resize")
	list, _ := document.Find(http.MethodGet, "projects/p/aggregated/instanceGroupManagers")
	for name, c := range map[string]struct {
		method      *Method
		query, want string
	}{
		"right":         {resize, "size=0&requestId=x&prettyPrint=false&alt=json", ""},
		"not given":     {resize, "requestId=x", `lacks its parameter "size"`},
		"no number":     {resize, "size=many", "is no integer"},
		"no parameter":  {resize, "size=1&request_id=x", `has no parameter "request_id"`},
		"path as query": {resize, "size=1&zone=z", `has no parameter "zone"`},
		"below":         {list, "maxResults=-1", "is less than 0"},
		"no truth":      {list, "returnPartialSuccess=yes", "is no boolean"},
	} {
		t.Run(name, func(t *testing.T) {
			query, err := url.ParseQuery(c.query)
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Join(document.CheckQuery(c.method, query), "; ")
			if (c.want == "") != (wrong == "") || !strings.Contains(wrong, c.want) {
				t.Errorf("CheckQuery(%s) = %q, want %q", c.query, wrong, c.want)
			}
		})
	}
	if found, _ := document.Find(http.MethodGet, "projects/p/zones/z/instanceGroupManagers/g/resize"); found != nil {
		t.Errorf("GET …/resize is %s, want nothing", found.ID)
	}
}

func TestFields(t *testing.T) {
	const text = `{"a": 1, "b": {"c": 2, "d": 3}, "items": {"x": {"list": [{"e": 4, "f": 5}], "g": 6}, "y": {"g": 7}}}`
	for fields, want := range map[string]string{
		"a":                      `{"a": 1}`,
		"a,b/c":                  `{"a": 1, "b": {"c": 2}}`,
		"b(c,d)":                 `{"b": {"c": 2, "d": 3}}`,
		"items/*/list(e)":        `{"items": {"x": {"list": [{"e": 4}]}, "y": {}}}`,
		"a,items/x(list/f,g),zz": `{"a": 1, "items": {"x": {"list": [{"f": 5}], "g": 6}}}`,
	} {
		selected, err := parseFields(fields)
		if err != nil {
			t.Fatal(err)
		}
		var value, wanted any
		for source, into := range map[string]*any{text: &value, want: &wanted} {
			if err := json.Unmarshal([]byte(source), into); err != nil {
				t.Fatal(err)
			}
		}
		if got := selected.from(value); !reflect.DeepEqual(got, wanted) {
			t.Errorf("fields %q select %v, want %v", fields, got, wanted)
		}
	}
	for _, wrong := range []string{"", "a,", "a(b", "a)b", "/a", "a//b"} {
		if selected, err := parseFields(wrong); err == nil {
			t.Errorf("parseFields(%q) = %v, want an error", wrong, selected)
		}
	}
}

// TestLife: an instance goes through its states in their times, and its group with
// it.
func TestLife(t *testing.T) {
	s := Start(t)
	s.Add(Group{Zone: "us-east1-b", Name: "web", Size: 1, Boot: 10 * time.Second, Stop: 5 * time.Second})
	g := s.groups["zones/us-east1-b/web"]
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setSize(g, 2, now)
	for _, step := range []struct {
		after          time.Duration
		action, status string
		stable         bool
	}{
		{0, actionCreating, statusProvisioning, false},
		{6 * time.Second, actionCreating, statusStaging, false},
		{11 * time.Second, actionNone, statusRunning, true},
	} {
		s.advance(g, now.Add(step.after))
		if i := g.instances[1]; i.action != step.action || i.status != step.status || g.stable() != step.stable {
			t.Errorf("after %v: %s %s, stable %v, want %+v", step.after, i.action, i.status, g.stable(), step)
		}
	}
	now = now.Add(time.Minute)
	s.setSize(g, 1, now)
	if i := g.instances[1]; i.action != actionDeleting || i.status != statusStopping || g.stable() {
		t.Errorf("the newest instance is %s %s, want it to be deleted", i.action, i.status)
	}
	s.advance(g, now.Add(6*time.Second))
	if len(g.instances) != 1 || !g.stable() {
		t.Errorf("%d instances are left, stable %v, want 1 and stable", len(g.instances), g.stable())
	}
}
