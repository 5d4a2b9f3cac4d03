package swarm

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/swarm"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/policy"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// task returns a task in a slot, created the given number of minutes after noon.
func task(id string, slot, minute int, state, desired swarm.TaskState, node string) *swarm.Task {
	t := &swarm.Task{ID: id, Slot: slot, NodeID: node, DesiredState: desired}
	t.Status.State = state
	t.CreatedAt = noon.Add(time.Duration(minute) * time.Minute)
	t.Status.Timestamp = t.CreatedAt.Add(time.Second)
	return t
}

func TestMembers(t *testing.T) {
	const (
		running, ready, remove, shutdown = swarm.TaskStateRunning, swarm.TaskStateReady, swarm.TaskStateRemove, swarm.TaskStateShutdown
		starting, pending, failed        = swarm.TaskStateStarting, swarm.TaskStatePending, swarm.TaskStateFailed
	)
	for _, test := range []struct {
		name  string
		tasks []*swarm.Task
		count int
		// want lists the IDs, with "-" before leaving members.
		want   string
		living int
	}{
		{"nothing", nil, 0, "", 0},
		{"one for each slot", []*swarm.Task{task("b", 2, 0, running, running, "n"), task("a", 1, 0, starting, running, "n")}, 2, "a b", 2},
		{"removed and running", []*swarm.Task{task("a", 1, 0, running, running, "n"), task("b", 2, 0, running, remove, "n")}, 1, "a -b", 1},
		{"removed and stopped", []*swarm.Task{task("a", 1, 0, running, running, "n"), task("b", 2, 0, shutdown, remove, "n")}, 1, "a", 1},
		{"stop-first update", []*swarm.Task{task("old", 1, 0, running, shutdown, "n"), task("new", 1, 1, ready, ready, "n")}, 1, "-old new", 1},
		{"start-first update, new task starting", []*swarm.Task{task("old", 1, 0, running, running, "n"), task("new", 1, 1, starting, running, "n")}, 1, "old", 1},
		{"start-first update, new task running", []*swarm.Task{task("old", 1, 0, running, running, "n"), task("new", 1, 1, running, running, "n")}, 1, "-old new", 1},
		{"a task waiting for its slot", []*swarm.Task{task("old", 1, 0, running, running, "n"), task("new", 1, 1, ready, ready, "n")}, 1, "old", 1},
		{"a failed task and its successor", []*swarm.Task{task("old", 1, 0, failed, running, "n"), task("new", 1, 1, ready, ready, "n")}, 1, "new", 1},
		{"a failed task without a successor", []*swarm.Task{task("old", 1, 0, failed, running, "n")}, 1, "old", 0},
		{"more tasks than the count", []*swarm.Task{task("a", 1, 0, running, running, "n"), task("b", 2, 0, running, running, "n"), task("c", 3, 0, running, running, "n")}, 1, "a -b -c", 1},
		{"tasks that are not running first", []*swarm.Task{task("a", 1, 0, starting, running, "n"), task("b", 2, 0, running, running, "n")}, 1, "-a b", 1},
		{"count 0", []*swarm.Task{task("a", 1, 0, running, running, "n")}, 0, "-a", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			members := membersOf(test.tasks, test.count)
			var got []string
			living := 0
			for _, m := range members {
				id := m.ID
				if m.leaving {
					id = "-" + id
				}
				got = append(got, id)
				if m.living() {
					living++
				}
			}
			if text := strings.Join(got, " "); text != test.want || living != test.living {
				t.Errorf("members = %q with %d living, want %q and %d", text, living, test.want, test.living)
			}
		})
	}
}

func TestInstances(t *testing.T) {
	service := &swarm.Service{Spec: swarm.ServiceSpec{Annotations: swarm.Annotations{Name: "shop_web"}}}
	resources := &swarm.ResourceRequirements{
		Reservations: &swarm.Resources{NanoCPUs: 250_000_000},
		Limits:       &swarm.Limit{NanoCPUs: 1_000_000_000, MemoryBytes: 64 << 20},
	}
	requests := []policy.Amount{{Resource: "cpu", Milli: 250}, {Resource: "memory", Milli: 64 << 20 * 1000}}
	for _, test := range []struct {
		name      string
		state     swarm.TaskState
		resources *swarm.ResourceRequirements
		want      policy.Instance
	}{
		{"running", swarm.TaskStateRunning, resources, policy.Instance{
			Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, StartedAt: noon.Add(time.Second),
			Tasks: []policy.Task{{Name: "shop_web", Requests: requests, RequestHint: requestHint}},
		}},
		{"waiting for its health check", swarm.TaskStateStarting, nil, policy.Instance{
			Phase: policy.PhasePending, Readiness: policy.ReadinessFalse, Tasks: []policy.Task{{Name: "shop_web", RequestHint: requestHint}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			of := task("a", 1, 0, test.state, swarm.TaskStateRunning, "n")
			of.Spec.Resources = test.resources
			test.want.ID, test.want.ReadinessChanged = "a", noon.Add(time.Second)
			if difference := cmp.Diff(test.want, member{Task: of}.instance(service)); difference != "" {
				t.Errorf("instance (-want +got):\n%s", difference)
			}
		})
	}
}

func TestHold(t *testing.T) {
	for _, test := range []struct {
		state   swarm.UpdateState
		want    string
		message string
		// during reports whether scale_during_update removes the hold.
		during bool
	}{
		{swarm.UpdateStateUpdating, UpdateInProgress, `service "web" is being updated: because`, true},
		{swarm.UpdateStateRollbackStarted, UpdateInProgress, `service "web" is being rolled back: because`, true},
		{swarm.UpdateStatePaused, UpdatePaused, `the update of service "web" is paused: because; resume it with "docker service update web", or undo it with "docker service rollback web"`, false},
		{swarm.UpdateStateRollbackPaused, UpdatePaused, `the rollback of service "web" is paused: because; resume it with "docker service update web"`, false},
		{swarm.UpdateStateCompleted, "", "", false},
		{swarm.UpdateStateRollbackCompleted, "", "", false},
	} {
		service := &swarm.Service{
			Spec:         swarm.ServiceSpec{Annotations: swarm.Annotations{Name: "web"}},
			UpdateStatus: &swarm.UpdateStatus{State: test.state, Message: "because"},
		}
		hold := (&Fleet{config: &Config{}}).hold(service, nil, noon)
		if test.want == "" != (hold == nil) || hold != nil && (hold.Reason != test.want || hold.Message != test.message) {
			t.Errorf("%s: hold = %+v, want %s %q", test.state, hold, test.want, test.message)
		}
		during := (&Fleet{config: &Config{ScaleDuringUpdate: true}}).hold(service, nil, noon)
		if lifted := hold != nil && during == nil; lifted != test.during {
			t.Errorf("%s: scale_during_update lifts the hold = %v, want %v", test.state, lifted, test.during)
		}
	}
	if hold := (&Fleet{config: &Config{}}).hold(&swarm.Service{}, nil, noon); hold != nil {
		t.Errorf("hold of a service that was never updated = %+v, want nil", hold)
	}
}

// TestUnreadyReason checks that a task that is not running has the state and the message of the
// swarm.
func TestUnreadyReason(t *testing.T) {
	of := func(state swarm.TaskState, message, err string) member {
		m := member{Task: task("a", 1, 0, state, swarm.TaskStateRunning, "n")}
		m.Status.Message, m.Status.Err = message, err
		return m
	}
	leaving := of(swarm.TaskStateRunning, "started", "")
	leaving.leaving = true
	for _, test := range []struct {
		member member
		want   string
	}{
		{of(swarm.TaskStateRunning, "started", ""), ""},
		{of(swarm.TaskStateStarting, "starting", ""), "starting: starting"},
		{of(swarm.TaskStatePreparing, "", ""), "preparing"},
		{of(swarm.TaskStatePending, "pending task scheduling", "no suitable node"), "pending: no suitable node"},
		{leaving, "stopping: running"},
	} {
		if got := test.member.unreadyReason(); got != test.want {
			t.Errorf("reason = %q, want %q", got, test.want)
		}
	}
}
