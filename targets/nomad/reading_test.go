package nomad

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

// TestLocation: addresses and ports of the allocation and of its tasks, each once.
func TestLocation(t *testing.T) {
	for text, want := range map[string]targets.Location{
		`{}`:                         {Name: "a", Node: "vm"},
		`{"AllocatedResources": {}}`: {Name: "a", Node: "vm"},
		`{"AllocatedResources": {"Shared": {
			"Ports": [{"Label": "http", "Value": 8080, "HostIP": "10.0.0.1"}, {"Label": "none", "Value": 0, "HostIP": ""}],
			"Networks": [null, {"IP": "10.0.0.2", "ReservedPorts": [{"Label": "admin", "Value": 9}], "DynamicPorts": [{"Label": "rpc", "Value": 20001}]}]
		}}}`: {Name: "a", Node: "vm", Addresses: []string{"10.0.0.1", "10.0.0.2"}, Ports: targets.Ports{{Label: "admin", Number: 9}, {Label: "http", Number: 8080}, {Label: "rpc", Number: 20001}}},
		`{"AllocatedResources": {"Shared": {"Ports": [{"Label": "http", "Value": 8080, "HostIP": "10.0.0.1"}]}, "Tasks": {
			"empty": null, "main": {"Networks": [{"IP": "10.0.0.1", "DynamicPorts": [{"Label": "db", "Value": 5432}]}]}
		}}}`: {Name: "a", Node: "vm", Addresses: []string{"10.0.0.1"}, Ports: targets.Ports{{Label: "db", Number: 5432}, {Label: "http", Number: 8080}}},
	} {
		alloc := &allocStub{Name: "a", NodeName: "vm"}
		if err := json.Unmarshal([]byte(text), alloc); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, alloc.location()); diff != "" {
			t.Errorf("location of %s (-want +got):\n%s", text, diff)
		}
	}
}

// TestTasks: what prepares or cleans up is none of an allocation's tasks, a sidecar is
// one, and does not say when it started.
func TestTasks(t *testing.T) {
	first, second := time.Unix(1_790_000_000, 0).UTC(), time.Unix(1_790_000_060, 0).UTC()
	alloc := new(allocStub)
	states := fmt.Sprintf(`{"TaskStates": {"main": {"StartedAt": %q}, "side": {"StartedAt": %q}, "init": {"StartedAt": %q}, "none": null}}`,
		first.Format(time.RFC3339), second.Format(time.RFC3339), second.Format(time.RFC3339))
	if err := json.Unmarshal([]byte(states), alloc); err != nil {
		t.Fatal(err)
	}
	if got := alloc.started(); !got.Equal(second) {
		t.Errorf("started at %v, want the latest where nothing is known of the tasks", got)
	}
	text := `{"AllocatedResources": {
		"Tasks": {
			"main": {"Cpu": {"CpuShares": 500}, "Memory": {"MemoryMB": 64}}, "side": {"Memory": {"MemoryMB": 32}}, "init": {"Cpu": {"CpuShares": 100}}, "gone": null
		},
		"TaskLifecycles": {"main": null, "side": {"Hook": "prestart", "Sidecar": true}, "init": {"Hook": "prestart"}, "hookless": {"Hook": ""}}
	}}`
	if err := json.Unmarshal([]byte(text), alloc); err != nil {
		t.Fatal(err)
	}
	if got := alloc.started(); !got.Equal(first) {
		t.Errorf("started at %v, want when the main task did", got)
	}
	want := []policy.Task{
		{Name: "main", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}},
		{Name: "side", Requests: []policy.Amount{{Resource: "memory", Milli: 32 << 20 * 1000}}},
	}
	if diff := cmp.Diff(want, alloc.tasks(1000)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
	for name, want := range map[string][2]bool{"main": {true, true}, "side": {false, true}, "init": {false, false}, "hookless": {true, true}, "unheard": {true, true}} {
		if got := [2]bool{alloc.main(name), alloc.lasting(name)}; got != want {
			t.Errorf("task %q is main and lasting: %v, want %v", name, got, want)
		}
	}
	for desired, want := range map[string]bool{"run": false, "stop": true, "evict": true, "": false} {
		if got := (&allocStub{DesiredStatus: desired}).stopping(); got != want {
			t.Errorf("an allocation that is to %q is stopping: %t", desired, got)
		}
	}
}

// TestHoldTells: the hold of a deployment says how many allocations wait for a place.
func TestHoldTells(t *testing.T) {
	i := newImitation(t)
	i.add("web", 2)
	f := newFleet(t, i)
	for queued, want := range map[int]string{
		0: `deployment d0000000 of job "web" is running: Deployment is running`,
		3: `deployment d0000000 of job "web" is running: Deployment is running; 3 allocations of group "app" wait for a place`,
	} {
		i.change("web", func(job *imitatedJob) { job.deployment, job.queued = "Deployment is running", queued })
		if hold := readOne(t, f, "web/app").Hold; hold == nil || hold.Message != want {
			t.Errorf("hold %+v, want %q", hold, want)
		}
	}
}
