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

// failing returns a notice of the allocations of a group that fail; nil for none.
func failing(allocs []*alloc, group string, now time.Time) *policy.Notice {
	const most = 3
	failed, restarting := 0, 0
	var troubled []*alloc
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
	slices.SortFunc(troubled, func(a, b *alloc) int { return cmp.Or(cmp.Compare(a.index(), b.index()), cmp.Compare(a.ID, b.ID)) })
	told := make([]string, 0, len(troubled))
	for _, alloc := range troubled {
		told = append(told, strings.TrimSpace(fmt.Sprintf("%s (%s) %s", alloc.Name, shortID(alloc.ID), alloc.faults)))
	}
	if len(told) > most {
		told = append(told[:most:most], "and more")
	}
	notice := &policy.Notice{Condition: AllocationsFailing, Reason: AllocationsFailed}
	switch {
	case failed > 0 && restarting > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no successor, tasks of %d others are started again", failed, group, restarting)
	case failed > 0:
		notice.Message = fmt.Sprintf("%d allocations of group %q failed and have no successor", failed, group)
	default:
		notice.Reason = TasksRestarting
		notice.Message = fmt.Sprintf("tasks of %d allocations of group %q failed and are started again", restarting, group)
	}
	notice.Message += ": " + strings.Join(told, "; ")
	return notice
}
