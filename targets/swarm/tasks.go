package swarm

import (
	"cmp"
	"slices"

	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/docker"
)

// requestHint is how a service states what it reserves.
const requestHint = `reserve it in the service (deploy.resources.reservations or limits; docker service update --reserve-cpu, --reserve-memory), or say requests = { cpu = "500m", memory = "256Mi" } in the autoscaler's target`

// member is a task that counts as an instance.
type member struct {
	*swarm.Task
	// leaving reports whether the swarm stops it, or is about to.
	leaving bool
}

// living reports whether a member is neither terminal nor being stopped.
func (m member) living() bool { return !m.leaving && !ended(m.Task) }

// phaseOf returns where a task is in its life.
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

// ended reports whether a task does not run any more.
func ended(task *swarm.Task) bool {
	phase := phaseOf(task)
	return phase == policy.PhaseSucceeded || phase == policy.PhaseFailed
}

// stopping reports whether the swarm wants a task to stop.
func stopping(task *swarm.Task) bool {
	switch task.DesiredState {
	case swarm.TaskStateShutdown, swarm.TaskStateRemove, swarm.TaskStateOrphaned:
		return true
	}
	return false
}

// membersOf returns the tasks of a service that count as its instances: of each slot one
// that lives, and those that are being stopped. A task that waits for another of its
// slot to end does not count yet. With more living ones than the count, those that the
// swarm is about to stop are leaving.
func membersOf(tasks []*swarm.Task, count int) []member {
	var members []member
	slots := map[int][]*swarm.Task{}
	for _, task := range tasks {
		switch {
		case stopping(task) && ended(task): // gone
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
			case phaseOf(task) == policy.PhaseRunning: // the update has passed it
				members = append(members, member{Task: task, leaving: true})
			}
		}
	}
	order(living)
	for i, task := range living {
		members = append(members, member{Task: task, leaving: i >= count})
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Slot, b.Slot), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return members
}

// bySeniority orders the tasks of one slot, first the one that fills it: one that runs,
// the newer of two; else one that is on its way; else one that ended and has no
// successor yet.
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

// order puts tasks in the order in which the swarm keeps them when a count is lowered:
// those of the nodes with the fewest first, as the swarm's own orchestrator sorts them.
func order(living []*swarm.Task) {
	running := func(task *swarm.Task) int {
		if task.Status.State == swarm.TaskStateRunning {
			return 0
		}
		return 1
	}
	slices.SortFunc(living, func(a, b *swarm.Task) int {
		return cmp.Or(cmp.Compare(running(a), running(b)), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID))
	})
	onNode := map[string]int{}
	nth := make(map[*swarm.Task]int, len(living))
	for _, task := range living {
		if task.NodeID == "" {
			nth[task] = len(living) + 1
			continue
		}
		onNode[task.NodeID]++
		nth[task] = onNode[task.NodeID]
	}
	slices.SortStableFunc(living, func(a, b *swarm.Task) int { return cmp.Compare(nth[a], nth[b]) })
}

// instance returns what a member is to policy. A task runs only once its healthcheck
// succeeds, and is replaced when it fails, so that one that runs is ready.
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

// requestsOf returns what a task reserves, and else how much it may use.
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
