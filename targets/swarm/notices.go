package swarm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
)

// TasksFailing means that tasks fail and are replaced.
const TasksFailing policy.ConditionType = "TasksFailing"

// TaskFailed is the reason for TasksFailing. The message contains the swarm's error.
const TaskFailed = "TaskFailed"

// failingWindow is how long hpad reports a failure.
const failingWindow = time.Minute

// unsettled reports whether a service has new or pending tasks. Without such tasks, no task has
// failed recently.
func unsettled(tasks []*swarm.Task, now time.Time) bool {
	return slices.ContainsFunc(tasks, func(task *swarm.Task) bool {
		return !stopping(task) && (phaseOf(task) != policy.PhaseRunning || now.Sub(task.CreatedAt) < failingWindow)
	})
}

// listFailed lists the ended tasks of unsettled services. It ignores errors.
func (s *snapshot) listFailed(ctx context.Context, names []string) {
	wanted := filters.NewArgs(filters.Arg("desired-state", string(swarm.TaskStateShutdown)))
	for _, name := range names {
		service := s.services[name]
		if service != nil && unsettled(s.tasks[service.ID], s.observed) && len(wanted.Get("service")) < maxFiltered {
			wanted.Add("service", service.ID)
		}
	}
	if !wanted.Contains("service") {
		return
	}
	tasks, err := s.fleet.tasks(ctx, wanted)
	if err != nil {
		return
	}
	s.ended = map[string][]*swarm.Task{}
	for i := range tasks {
		s.ended[tasks[i].ServiceID] = append(s.ended[tasks[i].ServiceID], &tasks[i])
	}
}

// failing returns the notice of recently failed tasks, or nil.
func failing(service *swarm.Service, tasks []*swarm.Task, now time.Time) *policy.Notice {
	places := map[int]bool{}
	var last *swarm.Task
	for _, task := range tasks {
		switch task.Status.State {
		case swarm.TaskStateFailed, swarm.TaskStateRejected:
		default:
			continue
		}
		if now.Sub(task.Status.Timestamp) > failingWindow {
			continue
		}
		places[task.Slot] = true
		if last == nil || task.Status.Timestamp.After(last.Status.Timestamp) {
			last = task
		}
	}
	if last == nil {
		return nil
	}
	message := last.Status.Err
	if message == "" {
		message = last.Status.Message
	}
	return &policy.Notice{
		Condition: TasksFailing, Reason: TaskFailed,
		Message: fmt.Sprintf("tasks of service %q failed in %d slots within the last minute; last error: %s", service.Spec.Name, len(places), message),
	}
}

// InsufficientCapacity means that tasks are waiting for a node.
const InsufficientCapacity policy.ConditionType = "InsufficientCapacity"

// NoSuitableNode is the reason for InsufficientCapacity. The message contains the swarm's
// error.
const NoSuitableNode = "NoSuitableNode"

// waiting returns the notice of tasks without a node, or nil.
func waiting(service *swarm.Service, members []member) *policy.Notice {
	count := 0
	why := map[string]bool{}
	for _, m := range members {
		if m.Status.State == swarm.TaskStatePending && m.Status.Err != "" && !m.leaving {
			count++
			why[m.Status.Err] = true
		}
	}
	if count == 0 {
		return nil
	}
	return &policy.Notice{
		Condition: InsufficientCapacity, Reason: NoSuitableNode,
		Message: fmt.Sprintf("%d tasks of service %q are waiting for a node: %s", count, service.Spec.Name, strings.Join(slices.Sorted(maps.Keys(why)), "; ")),
	}
}
