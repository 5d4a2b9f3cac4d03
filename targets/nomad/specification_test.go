package nomad

import (
	"testing"
	"time"
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

// TestSpecifications: what is known is the newest of each job, also of a job made
// anew, and goes after an hour in which nobody needed it.
func TestSpecifications(t *testing.T) {
	begun := time.Unix(1_790_000_000, 0)
	web, other := jobKey{id: "web"}, jobKey{id: "other"}
	var s specifications
	at := func(key jobKey, index uint64, now time.Time, want bool) {
		t.Helper()
		if got := s.at(key, index, now); (got != nil) != want || got != nil && got.index != index {
			t.Errorf("job %q at index %d is known as %+v, want it known: %t", key.id, index, got, want)
		}
	}
	s.remember(web, &specification{index: 7, createIndex: 5}, begun)
	at(web, 7, begun, true)
	at(web, 8, begun, false)
	at(other, 7, begun, false)
	s.remember(web, &specification{index: 6, createIndex: 5}, begun) // of a call that began before
	at(web, 7, begun, true)
	s.remember(web, &specification{index: 9, createIndex: 5}, begun)
	at(web, 9, begun, true)
	s.remember(web, &specification{index: 3, createIndex: 2}, begun) // of a cluster that was restored
	at(web, 3, begun, true)
	if s.last(other) != nil || s.last(web).index != 3 {
		t.Errorf("last known: %+v of one that is not, %+v", s.last(other), s.last(web))
	}

	s.remember(other, &specification{index: 1}, begun)
	at(web, 3, begun.Add(forgetAfter), true)
	for n, now := range []time.Time{begun.Add(forgetAfter + 1), begun.Add(3 * forgetAfter)} {
		s.remember(jobKey{id: "third"}, &specification{index: 1}, now)
		if known := len(s.known); known != 2-n {
			t.Errorf("%d specifications are known at %v, want those that were asked for lately", known, now.Sub(begun))
		}
	}
}

// TestFindTypes: service and batch jobs have counts.
func TestFindTypes(t *testing.T) {
	for kind, want := range map[string]bool{"service": true, "batch": true, "system": false, "sysbatch": false, "": false} {
		spec := &specification{jobType: kind, groups: byName[group]{{name: "app"}}}
		if _, err := spec.find(&Target{Job: "web", Group: "app"}); (err == nil) != want {
			t.Errorf("a job of type %q: %v", kind, err)
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
