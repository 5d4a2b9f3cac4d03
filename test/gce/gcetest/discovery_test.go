package gcetest

import (
	"encoding/json"
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
