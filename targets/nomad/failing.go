package nomad

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
)

// AllocationsFailing is the condition of a group with allocations that failed, or
// whose tasks end and are started again.
const AllocationsFailing policy.ConditionType = "AllocationsFailing"

// The reasons of AllocationsFailing.
const (
	// AllocationsFailed: allocations failed, and Nomad has not put others in their
	// places yet, or will not.
	AllocationsFailed = "AllocationsFailed"
	// TasksRestarting: tasks failed, and are started again in their allocations.
	TasksRestarting = "TasksRestarting"
)

// restartingWindow is how long a running task counts as restarting after its start.
const restartingWindow = time.Minute

// fault is how a task failed last, by its events; zero when it did not.
type fault struct {
	words string
	// restarted is when the task was to be started again; zero when it was not.
	restarted time.Time
}

// UnmarshalJSON reads the events of a task. They are most of a list of allocations,
// so those without any failure, as nearly all, are not parsed.
func (f *fault) UnmarshalJSON(text []byte) error {
	*f = fault{}
	if !bytes.Contains(text, []byte(`Restarting"`)) && !bytes.Contains(text, []byte(`"FailsTask":true`)) {
		return nil
	}
	var events []struct {
		Type, DisplayMessage string
		FailsTask            bool
		Time                 int64
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return err
	}
	asked := false // a person, or a template that changed, wants the task to start again
	for _, event := range events {
		switch event.Type {
		case api.TaskRestartSignal:
			asked = true
		case api.TaskRestarting:
			if !asked {
				f.restarted = time.Unix(0, event.Time)
			}
			asked = false
		case api.TaskNotRestarting: // why not is not why it failed
			f.words = cmp.Or(f.words, event.DisplayMessage)
		case api.TaskTerminated, api.TaskDriverFailure, api.TaskArtifactDownloadFailed:
			if !asked {
				f.words = event.DisplayMessage
			}
		default:
			if event.FailsTask {
				f.words = event.DisplayMessage
			}
		}
	}
	return nil
}

// failed reports whether an allocation failed and has no successor.
func (a *allocStub) failed() bool {
	return a.ClientStatus == api.AllocClientStatusFailed && a.DesiredStatus == api.AllocDesiredStatusRun && a.NextAllocation == ""
}

// restarting reports whether tasks of an allocation failed and are started again, or
// were a moment ago.
func (a *allocStub) restarting(now time.Time) bool {
	for _, task := range a.TaskStates {
		restarted := task.value.Events.restarted
		if !restarted.IsZero() && (a.phase() == policy.PhasePending || now.Sub(restarted) < restartingWindow) {
			return true
		}
	}
	return false
}

// faults returns how the tasks of an allocation failed.
func (a *allocStub) faults() string {
	var told []string
	for _, task := range a.TaskStates {
		if task.value.Events.words != "" {
			told = append(told, fmt.Sprintf("task %q: %s", task.name, task.value.Events.words))
		}
	}
	said := fmt.Sprintf("%s (%s)", a.Name, shortID(a.ID))
	if len(told) > 0 {
		said += " " + strings.Join(told, ", ")
	}
	return said
}

// failing returns a notice of the allocations of a group that fail; nil for none.
func failing(allocs []*allocStub, t Target, now time.Time) *policy.Notice {
	const most = 3
	failed, restarting := 0, 0
	var troubled []*allocStub
	for _, alloc := range allocs {
		switch {
		case alloc.stopping() || alloc.canary():
			continue
		case alloc.failed():
			failed++
		case alloc.restarting(now):
			restarting++
		default:
			continue
		}
		troubled = append(troubled, alloc)
	}
	if len(troubled) == 0 {
		return nil
	}
	slices.SortFunc(troubled, func(a, b *allocStub) int { return cmp.Or(cmp.Compare(a.index(), b.index()), cmp.Compare(a.ID, b.ID)) })
	told := make([]string, 0, len(troubled))
	for _, alloc := range troubled {
		told = append(told, alloc.faults())
	}
	if len(told) > most {
		told = append(told[:most:most], "and more")
	}
	notice := &policy.Notice{Condition: AllocationsFailing, Reason: AllocationsFailed}
	switch {
	case failed > 0 && restarting > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no successor, tasks of %d others are started again", failed, t.Group, restarting)
	case failed > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no successor", failed, t.Group)
	default:
		notice.Reason = TasksRestarting
		notice.Message = fmt.Sprintf("tasks of %d allocations of group %q failed and are started again", restarting, t.Group)
	}
	notice.Message += ": " + strings.Join(told, "; ")
	return notice
}
