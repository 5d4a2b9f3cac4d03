package swarm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// requestHint describes how to set the resource requests of a service.
const requestHint = `reserve it in the service (deploy.resources.reservations or limits; docker service update --reserve-cpu, --reserve-memory), or set requests = { cpu = "500m", memory = "256Mi" } in the autoscaler's target`

// member is a task that is treated as an instance.
type member struct {
	*swarm.Task
	// leaving reports whether the swarm is stopping the task or is about to stop it.
	leaving bool
}

// living reports whether a member is neither terminal nor stopping.
func (m member) living() bool { return !m.leaving && !ended(m.Task) }

func phaseOf(task *swarm.Task) policy.Phase {
	switch task.Status.State {
	case swarm.TaskStateNew, swarm.TaskStateAllocated, swarm.TaskStatePending, swarm.TaskStateAssigned,
		swarm.TaskStateAccepted, swarm.TaskStatePreparing, swarm.TaskStateReady, swarm.TaskStateStarting:
		return policy.PhasePending
	case swarm.TaskStateRunning:
		return policy.PhaseRunning
	case swarm.TaskStateComplete:
		return policy.PhaseSucceeded
	case swarm.TaskStateFailed, swarm.TaskStateRejected, swarm.TaskStateShutdown, swarm.TaskStateRemove, swarm.TaskStateOrphaned:
		return policy.PhaseFailed
	}
	return policy.PhaseUnknown
}

func ended(task *swarm.Task) bool {
	phase := phaseOf(task)
	return phase == policy.PhaseSucceeded || phase == policy.PhaseFailed
}

// stopping reports whether the task's desired state is a final state.
func stopping(task *swarm.Task) bool {
	switch task.DesiredState {
	case swarm.TaskStateShutdown, swarm.TaskStateRemove, swarm.TaskStateOrphaned:
		return true
	}
	return false
}

// membersOf returns the tasks that are treated as instances: one for each slot, and those that
// are stopping. If there are more than count, it marks the tasks that the swarm is about to
// stop as leaving.
func membersOf(tasks []*swarm.Task, count int) []member {
	var members []member
	slots := map[int][]*swarm.Task{}
	for _, task := range tasks {
		switch {
		case stopping(task) && ended(task): // removed
		case stopping(task):
			members = append(members, member{Task: task, leaving: true})
		default:
			slots[task.Slot] = append(slots[task.Slot], task)
		}
	}
	var living []*swarm.Task
	for _, slot := range slots {
		slices.SortFunc(slot, bySeniority)
		for i, task := range slot {
			switch {
			case i == 0 && ended(task):
				members = append(members, member{Task: task})
			case i == 0:
				living = append(living, task)
			case phaseOf(task) == policy.PhaseRunning: // an update has replaced it
				members = append(members, member{Task: task, leaving: true})
			}
		}
	}
	// Until the swarm has chosen the tasks to stop, assume that it stops pending tasks first, and
	// then the tasks in the highest slots.
	slices.SortFunc(living, func(a, b *swarm.Task) int {
		return cmp.Or(cmp.Compare(phaseOf(b), phaseOf(a)), cmp.Compare(a.Slot, b.Slot))
	})
	for i, task := range living {
		members = append(members, member{Task: task, leaving: i >= count})
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return members
}

// bySeniority orders the tasks of one slot: running tasks come first, newest first, then pending
// tasks, then ended tasks without a successor.
func bySeniority(a, b *swarm.Task) int {
	rank := func(task *swarm.Task) int {
		switch {
		case phaseOf(task) == policy.PhaseRunning:
			return 0
		case !ended(task):
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// instance converts a member to an instance. A running task is ready: it is in the running
// state only after its health check has succeeded, and it is replaced when the check fails.
func (m member) instance(service *swarm.Service) policy.Instance {
	instance := policy.Instance{
		ID: m.ID, Phase: phaseOf(m.Task), Readiness: policy.ReadinessFalse, Deleting: m.leaving,
		ReadinessChanged: m.Status.Timestamp,
		Tasks:            []policy.Task{{Name: service.Spec.Name, Requests: requestsOf(m.Task), RequestHint: requestHint}},
	}
	if instance.Phase == policy.PhaseRunning {
		instance.Readiness = policy.ReadinessTrue
		instance.StartedAt = m.Status.Timestamp
	}
	return instance
}

// unreadyReason returns the reason why a task is not ready, as docker service ps shows it.
func (m member) unreadyReason() string {
	state := string(m.Status.State)
	switch {
	case m.leaving:
		return "stopping: " + state
	case phaseOf(m.Task) == policy.PhaseRunning:
		return ""
	}
	return targets.Phrase(strings.TrimSuffix(state+": "+cmp.Or(m.Status.Err, m.Status.Message), ": "))
}

// requestsOf returns a task's reservations, or its limits if it has no reservations.
func requestsOf(task *swarm.Task) []policy.Amount {
	resources := task.Spec.Resources
	if resources == nil {
		return nil
	}
	var cpu, memory int64
	if resources.Reservations != nil {
		cpu, memory = resources.Reservations.NanoCPUs, resources.Reservations.MemoryBytes
	}
	if resources.Limits != nil {
		cpu, memory = cmp.Or(cpu, resources.Limits.NanoCPUs), cmp.Or(memory, resources.Limits.MemoryBytes)
	}
	return docker.Amounts(cpu, memory)
}
