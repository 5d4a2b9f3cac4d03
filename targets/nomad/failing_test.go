package nomad

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

// event is one of a task's, as Nomad lists it.
func event(kind, message string, fails bool, at time.Time) string {
	return fmt.Sprintf(`{"Type":%q,"DisplayMessage":%q,"FailsTask":%t,"Time":%d}`, kind, message, fails, at.UnixNano())
}

// TestFailing: allocations that failed and have no successor are instances that
// failed, which are not counted; they and those whose tasks are started again are
// shown, with how they failed.
func TestFailing(t *testing.T) {
	now := time.Now()
	ended := event("Terminated", "Exit Code: 3", false, now)
	again := event("Restarting", "Task restarting in 4s", false, now)
	long := event("Restarting", "Task restarting in 4s", false, now.Add(-time.Hour))
	given := event("Not Restarting", "Policy allows no restarts", true, now)
	asked := event("Restart Signaled", "User requested running tasks to restart", false, now)
	type alloc struct{ client, next, events string }
	list := func(events ...string) string {
		return "[" + strings.Join(append([]string{event("Received", "", false, now)}, events...), ",") + "]"
	}
	for _, c := range []struct {
		name   string
		allocs []alloc
		status int32
		failed int
		// reason and message are of the notice; empty for none.
		reason, message string
	}{
		{name: "all run", allocs: []alloc{{client: "running"}, {client: "running"}}, status: 2},
		{
			name: "failed", allocs: []alloc{{client: "running"}, {client: "failed", events: list(ended, given)}}, status: 1, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no successor: web.app[1] (a1) task "main": Exit Code: 3`,
		},
		{
			name: "failed before it started", allocs: []alloc{{client: "failed", events: list(event("Setup Failure", "failed to setup alloc", true, now))}}, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no successor: web.app[0] (a0) task "main": failed to setup alloc`,
		},
		{
			name: "failed for reasons unknown", allocs: []alloc{{client: "failed"}}, failed: 1,
			reason: AllocationsFailed, message: `1 allocations of group "app" failed and have no successor: web.app[0] (a0)`,
		},
		{name: "failed and replaced", allocs: []alloc{{client: "failed", next: "other", events: list(ended, given)}, {client: "running"}}, status: 1},
		{
			name: "waits to be started again", allocs: []alloc{{client: "pending", events: list(ended, long)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are started again: web.app[0] (a0) task "main": Exit Code: 3`,
		},
		{
			name: "was started again", allocs: []alloc{{client: "running", events: list(event("Driver Failure", "no such image", false, now), again)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are started again: web.app[0] (a0) task "main": no such image`,
		},
		{name: "was started again long ago", allocs: []alloc{{client: "running", events: list(ended, long)}}, status: 1},
		{name: "was started again by somebody", allocs: []alloc{{client: "running", events: list(asked, ended, again)}}, status: 1},
		{
			name: "failed after it was started again by somebody", allocs: []alloc{{client: "running", events: list(asked, event("Terminated", "Exit Code: 0", false, now), again, ended, again)}}, status: 1,
			reason: TasksRestarting, message: `tasks of 1 allocations of group "app" failed and are started again: web.app[0] (a0) task "main": Exit Code: 3`,
		},
		{
			name: "many of both", allocs: []alloc{
				{client: "failed", events: list(ended, given)},
				{client: "running", events: list(ended, again)},
				{client: "failed", events: list(ended, given)},
				{client: "failed", events: list(ended, given)},
			}, status: 1, failed: 3,
			reason: AllocationsFailed,
			message: `3 allocations of group "app" failed and have no successor, tasks of 1 others are started again: web.app[0] (a0) task "main": Exit Code: 3; ` +
				`web.app[1] (a1) task "main": Exit Code: 3; web.app[2] (a2) task "main": Exit Code: 3; and more`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newImitation(t)
			i.add("web", 0)
			i.mu.Lock()
			i.lazy = true
			i.mu.Unlock()
			i.change("web", func(job *imitatedJob) {
				job.count = len(c.allocs)
				for n, alloc := range c.allocs {
					job.allocs = append(job.allocs, &imitatedAlloc{
						id: fmt.Sprintf("a%d", n), desired: "run", client: alloc.client, number: n, created: now, started: now, next: alloc.next, events: alloc.events,
					})
				}
			})
			reading := readOne(t, newFleet(t, i), "web/app")
			failed := 0
			for _, instance := range reading.Instances {
				if instance.Phase == policy.PhaseFailed && !instance.Deleting {
					failed++
				}
			}
			if reading.SpecReplicas != int32(len(c.allocs)) || reading.StatusReplicas != c.status || failed != c.failed {
				t.Errorf("spec %d, status %d and %d failed instances, want %d, %d and %d", reading.SpecReplicas, reading.StatusReplicas, failed, len(c.allocs), c.status, c.failed)
			}
			var want []policy.Notice
			if c.reason != "" {
				want = []policy.Notice{{Condition: AllocationsFailing, Reason: c.reason, Message: c.message}}
			}
			if diff := cmp.Diff(want, reading.Notices); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
		})
	}
}
