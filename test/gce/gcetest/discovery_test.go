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
			t.Errorf("Find(%s, %s) = %v, want %s", m.Verb, path, found, id)
		}
	}
}
