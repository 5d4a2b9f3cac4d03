package nomad

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// TestTasks: tasks that prepare or clean up are no tasks of an instance; sidecars are, but
// do not count for its start.
func TestTasks(t *testing.T) {
	first, second := time.Unix(1_790_000_000, 0).UTC(), time.Unix(1_790_000_060, 0).UTC()
	stub := new(allocStub)
	text := fmt.Sprintf(`{"TaskStates": {"main": {"StartedAt": %q}, "side": {"StartedAt": %q}, "init": {"StartedAt": %q}, "none": null}, "AllocatedResources": {
		"Tasks": {
			"main": {"Cpu": {"CpuShares": 500}, "Memory": {"MemoryMB": 64}}, "side": {"Memory": {"MemoryMB": 32}}, "init": {"Cpu": {"CpuShares": 100}}, "gone": null
		},
		"TaskLifecycles": {"main": null, "side": {"Hook": "prestart", "Sidecar": true}, "init": {"Hook": "prestart"}, "hookless": {"Hook": ""}}
	}}`, first.Format(time.RFC3339), second.Format(time.RFC3339), second.Format(time.RFC3339))
	if err := json.Unmarshal([]byte(text), stub); err != nil {
		t.Fatal(err)
	}
	if got := newAlloc(stub, reservedBy(nil)).started; !got.Equal(second) {
		t.Errorf("started at %v, want the latest if nothing is known of the tasks", got)
	}
	r := reservedBy(stub.AllocatedResources)
	if got := newAlloc(stub, r).started; !got.Equal(first) {
		t.Errorf("started at %v, want when the main task did", got)
	}
	want := []policy.Task{
		{Name: "main", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}},
		{Name: "side", Requests: []policy.Amount{{Resource: "memory", Milli: 32 << 20 * 1000}}},
	}
	if diff := cmp.Diff(want, r.requests(1000)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}
