package nomad

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// allocWith returns an allocation with the given start time of its main task, which may be zero.
func allocWith(client string, created, started time.Time, health *bool, turned time.Time) *alloc {
	a := &alloc{started: started, allocStub: allocStub{ClientStatus: client, CreateTime: created.UnixNano()}}
	if health != nil {
		a.DeploymentStatus = &deploymentStatus{Healthy: health, Timestamp: turned}
	}
	return a
}

// TestNextRecord checks the record that follows from a previous record and a reading.
func TestNextRecord(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	yes, no := true, false
	was := func(readiness policy.Readiness, changed, started int) record {
		return record{Readiness: readiness, Changed: ago(changed), Started: ago(started)}
	}
	is := was
	const right, wrong = policy.ReadinessTrue, policy.ReadinessFalse
	plain, deployed := &group{}, &group{deploys: true}
	for _, c := range []struct {
		name   string
		alloc  *alloc
		group  *group
		before record
		checks policy.Readiness
		want   record
	}{
		{"pending", allocWith("pending", ago(9), time.Time{}, nil, time.Time{}), plain, record{}, right, record{Readiness: wrong, Changed: ago(9)}},
		{"pending again", allocWith("pending", ago(9), ago(8), nil, time.Time{}), plain, was(right, 7, 8), right, is(wrong, 0, 8)},
		{"failed", allocWith("failed", ago(9), ago(8), nil, time.Time{}), plain, was(right, 8, 8), right, is(wrong, 0, 8)},
		{"disconnected", allocWith("unknown", ago(9), ago(8), &yes, ago(7)), deployed, was(right, 7, 8), right, is(wrong, 0, 8)},
		{"reconnected", allocWith("running", ago(9), ago(8), &yes, ago(7)), deployed, was(wrong, 1, 8), right, is(right, 0, 8)},

		{"running, without health", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, record{}, right, is(right, 8, 8)},
		{"still running", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, was(right, 8, 8), right, is(right, 8, 8)},
		{"first reading, unknown start time", allocWith("running", ago(9), time.Time{}, nil, time.Time{}), plain, record{}, right, is(right, 0, 0)},
		{"still running, unknown start time", allocWith("running", ago(9), time.Time{}, nil, time.Time{}), plain, was(right, 3, 3), right, is(right, 3, 3)},
		{"start time reported later", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, was(right, 3, 3), right, is(right, 3, 8)},
		{"restarted", allocWith("running", ago(9), ago(1), nil, time.Time{}), plain, was(right, 8, 8), right, is(right, 1, 1)},

		{"not healthy yet", allocWith("running", ago(9), ago(8), nil, time.Time{}), deployed, record{}, right, is(wrong, 8, 8)},
		{"healthy", allocWith("running", ago(9), ago(8), &yes, ago(7)), deployed, was(wrong, 8, 8), right, is(right, 7, 8)},
		{"healthy before its tasks started", allocWith("running", ago(9), ago(6), &yes, ago(7)), deployed, record{}, right, is(right, 6, 6)},
		{"health reset", allocWith("running", ago(9), ago(8), nil, time.Time{}), deployed, was(right, 7, 8), right, is(right, 7, 8)},
		{"unhealthy", allocWith("running", ago(9), ago(8), &no, ago(2)), deployed, was(right, 7, 8), right, is(wrong, 2, 8)},
		{"unhealthy, then health reset", allocWith("running", ago(9), ago(8), nil, time.Time{}), deployed, was(wrong, 2, 8), right, is(wrong, 2, 8)},
		{"restarted, unknown health", allocWith("running", ago(9), ago(1), nil, time.Time{}), deployed, was(right, 7, 8), right, is(wrong, 1, 1)},

		{"checks fail", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, was(right, 8, 8), wrong, is(wrong, 0, 8)},
		{"checks failed before", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, was(wrong, 4, 8), wrong, is(wrong, 4, 8)},
		{"checks pass again", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, was(wrong, 4, 8), right, is(right, 0, 8)},
		{"checks unreadable", allocWith("running", ago(9), ago(8), nil, time.Time{}), plain, record{}, policy.ReadinessUnknown, is(policy.ReadinessUnknown, 0, 8)},
		{"pending, with unreadable checks", allocWith("pending", ago(9), time.Time{}, nil, time.Time{}), plain, record{}, policy.ReadinessUnknown, record{Readiness: wrong, Changed: ago(9)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := nextRecord(c.alloc, c.group, c.before, c.checks, now)
			if !got.Equal(c.want) {
				t.Errorf("nextRecord() = %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestSurplus checks that replaced allocations are removed first, then the highest indexes.
func TestSurplus(t *testing.T) {
	of := func(id, name, client string, version uint64) *alloc {
		return &alloc{allocStub: allocStub{ID: id, Name: name, ClientStatus: client, JobVersion: version}}
	}
	runs := func(id, name string) *alloc { return of(id, name, "running", 1) }
	for _, c := range []struct {
		name   string
		living []*alloc
		count  int32
		want   []string
	}{
		{"enough", []*alloc{runs("a", "g[0]"), runs("b", "g[1]")}, 2, nil},
		{"too few", []*alloc{runs("a", "g[0]")}, 2, nil},
		{"highest indexes", []*alloc{runs("a", "g[2]"), runs("b", "g[0]"), runs("c", "g[1]")}, 1, []string{"a", "c"}},
		{"two versions of an index", []*alloc{of("old", "g[0]", "running", 1), of("new", "g[0]", "running", 2), runs("b", "g[1]")}, 2, []string{"old"}},
		{"two versions of an index, newer first", []*alloc{of("new", "g[0]", "running", 2), of("old", "g[0]", "running", 1), runs("b", "g[1]")}, 2, []string{"old"}},
		{"different versions of different indexes", []*alloc{of("a", "g[0]", "running", 1), of("b", "g[1]", "running", 2)}, 1, []string{"b"}},
		{"disconnected with a replacement", []*alloc{of("dark", "g[0]", "unknown", 1), runs("new", "g[0]"), runs("b", "g[1]")}, 2, []string{"dark"}},
		{"disconnected without a replacement", []*alloc{of("dark", "g[0]", "unknown", 1), runs("b", "g[1]")}, 1, []string{"b"}},
		{"two disconnected", []*alloc{of("x", "g[0]", "unknown", 1), of("y", "g[0]", "unknown", 1), runs("b", "g[1]")}, 2, []string{"b"}},
		{"without indexes", []*alloc{of("x", "g", "running", 1), of("y", "g", "running", 2), runs("a", "g[0]")}, 2, []string{"a"}},
		{"same index", []*alloc{runs("y", "g[0]"), runs("x", "g[0]")}, 1, []string{"y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[string]bool{}
			for _, id := range c.want {
				want[id] = true
			}
			if c.want == nil {
				want = nil
			}
			if diff := cmp.Diff(want, surplus(c.living, c.count)); diff != "" {
				t.Errorf("surplus() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChecks checks that with readiness = "checks" an allocation is ready once all its service
// checks succeed. The checks of allocations that are not running or are stopping are not read.
// Nothing is read if the group has no checks or the fleet does not use them.
func TestChecks(t *testing.T) {
	i := newFakeServer(t)
	i.add("web", 0).checked = true
	listedBy(i,
		&fakeAlloc{id: "passes", desired: "run", client: "running", checks: []string{"success", "success"}},
		&fakeAlloc{id: "fails", desired: "run", client: "running", checks: []string{"success", "failure"}},
		&fakeAlloc{id: "begins", desired: "run", client: "running", checks: []string{}},
		&fakeAlloc{id: "dark", desired: "run", client: "running"},
		&fakeAlloc{id: "waits", desired: "run", client: "pending", checks: []string{"success"}},
		&fakeAlloc{id: "stops", desired: "stop", client: "running", checks: []string{"success"}, gone: far()},
		&fakeAlloc{id: "canary", desired: "run", client: "running", checks: []string{"success"}, canary: true},
	)
	i.change("web", func(job *fakeJob) { job.count = 5 })
	checkCalls := func() map[string]int {
		calls := map[string]int{}
		for path, n := range i.counted() {
			if len(path) > len("/checks") && path[len(path)-len("/checks"):] == "/checks" {
				calls[path] = n
			}
		}
		return calls
	}
	c := testConfig(t, i.server.URL)
	c.Readiness = readinessChecks
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
	if diff := cmp.Diff(calls, checkCalls()); diff != "" {
		t.Errorf("calls for checks (-want +got):\n%s", diff)
	}
	i.change("web", func(job *fakeJob) { job.checked = false })
	for _, instance := range readOne(t, f, "web/app").Instances {
		if instance.ID == "fails" && instance.Readiness != policy.ReadinessTrue {
			t.Errorf("readiness in a group without checks = %v", instance.Readiness)
		}
	}
	i.change("web", func(job *fakeJob) { job.checked = true })
	readOne(t, newFleet(t, i), "web/app")
	if calls := checkCalls(); len(calls) != 0 {
		t.Errorf("calls for checks = %v, want none without checks or with readiness = health", calls)
	}
}

// TestTasks checks that an instance's tasks include sidecars, but not prestart or poststop tasks.
// Sidecars do not affect its start time.
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
	if got := newAlloc(&allocStub{TaskStates: stub.TaskStates}).started; !got.Equal(second) {
		t.Errorf("start time = %v, want the latest time if the tasks are unknown", got)
	}
	r := reservedBy(stub.AllocatedResources)
	if got := newAlloc(stub).started; !got.Equal(first) {
		t.Errorf("start time = %v, want the start of the main task", got)
	}
	want := []policy.Task{
		{Name: "main", Requests: []policy.Amount{{Resource: "cpu", Milli: 500}, {Resource: "memory", Milli: 64 << 20 * 1000}}},
		{Name: "side", Requests: []policy.Amount{{Resource: "memory", Milli: 32 << 20 * 1000}}},
	}
	if diff := cmp.Diff(want, r.requests(1000)); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

// TestLimits checks that memory is the limit of a task without memory_max, and that an allocation has
// a limit only if each of its tasks has one.
func TestLimits(t *testing.T) {
	for tasks, want := range map[string][]policy.Amount{
		`{}`:           nil,
		`{"main": {}}`: nil,
		`{"main": {"Memory": {"MemoryMB": 64, "MemoryMaxMB": 128}}, "side": {"Memory": {"MemoryMB": 32}}}`:         {{Resource: "memory", Milli: 160 << 20 * 1000}},
		`{"main": {"Memory": {"MemoryMB": 64, "MemoryMaxMB": -1}}, "side": {"Memory": {"MemoryMB": 32}}}`:          nil,
		`{"main": {"Memory": {"MemoryMaxMB": 128}}, "side": {"Memory": {"MemoryMaxMB": 32}}}`:                      {{Resource: "memory", Milli: 160 << 20 * 1000}},
		`{"main": {"Cpu": {"CpuShares": 500}, "Memory": {"MemoryMaxMB": 128}}, "init": {"Cpu": {}}, "gone": null}`: {{Resource: "memory", Milli: 128 << 20 * 1000}},
	} {
		resources := new(allocatedResources)
		if err := json.Unmarshal([]byte(`{"Tasks": `+tasks+`, "TaskLifecycles": {"side": {"Hook": "prestart", "Sidecar": true}, "init": {"Hook": "prestart"}}}`), resources); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, reservedBy(resources).limits()); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", tasks, diff)
		}
	}
}

// TestUnreadyReason checks that each state that makes an allocation not ready has a name.
func TestUnreadyReason(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	no := false
	in := func(client string, healthy *bool, faults string) *alloc {
		a := allocWith(client, now, now, healthy, now)
		a.faults = faults
		return a
	}
	restarting := in("running", nil, `task "app": exit 3`)
	restarting.restarted = now
	const right, wrong = policy.ReadinessTrue, policy.ReadinessFalse
	for _, c := range []struct {
		alloc     *alloc
		readiness policy.Readiness
		deleting  bool
		checks    string
		want      string
	}{
		{in("running", nil, ""), right, false, "", ""},
		{in("running", nil, ""), wrong, false, "", "its deployment has not reported it as healthy yet"},
		{in("running", &no, ""), wrong, false, "", "unhealthy in its deployment"},
		{in("running", nil, ""), wrong, false, `service check "http": failure: 503`, `service check "http": failure: 503`},
		{restarting, wrong, false, "", `restarting: task "app": exit 3`},
		{in("pending", nil, ""), wrong, false, "", "client status pending"},
		{in("failed", nil, `task "app": exit 3`), wrong, false, "", `client status failed: task "app": exit 3`},
		{in("unknown", nil, ""), wrong, false, "", "client status unknown"},
		{in("running", nil, ""), right, true, "", "stopping: client status running"},
	} {
		instance := policy.Instance{Phase: c.alloc.phase(), Readiness: c.readiness, Deleting: c.deleting}
		if got := c.alloc.unreadyReason(&instance, c.checks, now); got != c.want {
			t.Errorf("%s, checks %q: reason = %q, want %q", c.alloc.ClientStatus, c.checks, got, c.want)
		}
	}
}
