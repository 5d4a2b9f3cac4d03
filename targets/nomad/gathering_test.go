package nomad

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestGroupReader: which group an allocation is of is found without the rest of it, in
// whichever order its members come.
func TestGroupReader(t *testing.T) {
	of := new(groupReader)
	for _, text := range []string{
		`{"ID":"a","JobID":"web","TaskGroup":"app","TaskStates":{"main":{"Events":[{"Type":"Started"}]}}}`,
		`{"TaskGroup":"app","AllocatedResources":{"Tasks":{"JobID":{"Networks":[{"IP":"10.0.0.1"}]}}},"JobID":"other"}`,
		`{"JobID":"a\"b\u00e9","TaskGroup":"c\\d"}`,
		`{"JobID":"alone"}`,
		`{}`,
		`null`,
	} {
		var alloc allocStub
		if err := json.Unmarshal([]byte(text), &alloc, lenientJSON); err != nil {
			t.Fatal(err)
		}
		if err := of.read([]byte(text)); err != nil || string(of.job) != alloc.JobID || string(of.group) != alloc.TaskGroup {
			t.Errorf("%s is of %q, %q, %v", text, of.job, of.group, err)
		}
	}
	for _, text := range []string{`[]`, `{"JobID":3}`, `{"JobID":"web","TaskGroup":["app"]}`} {
		if err := of.read([]byte(text)); err == nil {
			t.Errorf("%s is of %q, %q, want an error", text, of.job, of.group)
		}
	}
}

// TestContact: what was gathered may be as old as the oldest of its parts.
func TestContact(t *testing.T) {
	b, key := newBook(scope{}), groupKey{job: "web", group: "app"}
	r := newRoster(scope{}, b, []rosterTarget{{Target: Target{Job: "web", Group: "app"}}})
	v := newSurvey(r, &session{config: &Config{MaxConnections: 3}}, usual)
	v.jobs[0].listed = true
	known := v.unknown(0)
	b.keepGathering(&gathering{contact: 2 * time.Second, groups: map[groupKey]*knownGroup{key: known}})
	if err := v.read(t.Context(), map[groupKey]*knownGroup{key: v.unknown(0)}); err != nil {
		t.Fatal(err)
	}
	if got := b.entryLocked(key).knownGroup; got != known || got.contact != 2*time.Second {
		t.Errorf("known is %+v, want what was gathered, two seconds old", got)
	}
}
