package nomad

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// TestChecks: with readiness = "checks" an allocation is ready once all checks of its
// services succeed. Those of allocations that do not run, or go, are not read, nor is
// anything where the group has no checks or the fleet is not to read them.
func TestChecks(t *testing.T) {
	i := newImitation(t)
	i.add("web", 0).checked = true
	listedBy(i,
		&imitatedAlloc{id: "passes", desired: "run", client: "running", checks: []string{"success", "success"}},
		&imitatedAlloc{id: "fails", desired: "run", client: "running", checks: []string{"success", "failure"}},
		&imitatedAlloc{id: "begins", desired: "run", client: "running", checks: []string{}},
		&imitatedAlloc{id: "dark", desired: "run", client: "running"},
		&imitatedAlloc{id: "waits", desired: "run", client: "pending", checks: []string{"success"}},
		&imitatedAlloc{id: "stops", desired: "stop", client: "running", checks: []string{"success"}, gone: far()},
		&imitatedAlloc{id: "canary", desired: "run", client: "running", checks: []string{"success"}, canary: true},
	)
	i.change("web", func(job *imitatedJob) { job.count = 5 })
	asked := func() map[string]int {
		calls := map[string]int{}
		for path, n := range i.counted() {
			if len(path) > len("/checks") && path[len(path)-len("/checks"):] == "/checks" {
				calls[path] = n
			}
		}
		return calls
	}
	c := testConfig(t, i.server.URL)
	c.Readiness = ReadinessChecks
	got := map[string]policy.Readiness{}
	f := openFleet(t, c, nil)
	for _, instance := range readOne(t, f, "web/app").Instances {
		got[instance.ID] = instance.Readiness
	}
	want := map[string]policy.Readiness{
		"passes": policy.ReadinessTrue, "fails": policy.ReadinessFalse, "begins": policy.ReadinessFalse, "dark": policy.ReadinessUnknown,
		"waits": policy.ReadinessFalse, "stops": policy.ReadinessTrue,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("readiness (-want +got):\n%s", diff)
	}
	calls := map[string]int{}
	for _, id := range []string{"passes", "fails", "begins", "dark"} {
		calls["/v1/client/allocation/"+id+"/checks"] = 1
	}
	if diff := cmp.Diff(calls, asked()); diff != "" {
		t.Errorf("calls for checks (-want +got):\n%s", diff)
	}
	i.change("web", func(job *imitatedJob) { job.checked = false })
	for _, instance := range readOne(t, f, "web/app").Instances {
		if instance.ID == "fails" && instance.Readiness != policy.ReadinessTrue {
			t.Errorf("an allocation of a group without checks is %v", instance.Readiness)
		}
	}
	i.change("web", func(job *imitatedJob) { job.checked = true })
	readOne(t, newFleet(t, i), "web/app")
	if calls := asked(); len(calls) != 0 {
		t.Errorf("calls %v for checks of a group without, or by a fleet that is not to ask", calls)
	}
}
