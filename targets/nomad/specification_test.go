package nomad

import (
	"testing"
)

// TestChecked: services whose checks Nomad itself makes are looked for in the group
// and in its tasks.
func TestChecked(t *testing.T) {
	of := func(provider string, checks int) []service {
		return []service{{Provider: provider, Checks: make([]struct{}, checks)}}
	}
	for name, c := range map[string]struct {
		group *taskGroup
		want  bool
	}{
		"none":           {&taskGroup{}, false},
		"of the group":   {&taskGroup{Services: of("nomad", 1)}, true},
		"of a task":      {&taskGroup{Tasks: []task{{}, {Services: of("nomad", 2)}}}, true},
		"of Consul":      {&taskGroup{Services: of("consul", 1), Tasks: []task{{Services: of("", 1)}}}, false},
		"without checks": {&taskGroup{Services: of("nomad", 0)}, false},
	} {
		if got := checked(c.group); got != c.want {
			t.Errorf("checked() of services %s = %v", name, got)
		}
	}
}

// TestTargetValidate: a target names a job and a group, and one namespace.
func TestTargetValidate(t *testing.T) {
	for field, target := range map[string]Target{
		"":          {Job: "web", Group: "app", Namespace: "team"},
		"job":       {Group: "app"},
		"group":     {Job: "web"},
		"namespace": {Job: "web", Group: "app", Namespace: "*"},
	} {
		mistakes := target.Validate()
		if field == "" && mistakes != nil || field != "" && (len(mistakes) != 1 || mistakes[0].Field != field || mistakes[0].Detail == "") {
			t.Errorf("Validate() of %+v = %v, want a mistake of %q", target, mistakes, field)
		}
	}
}
