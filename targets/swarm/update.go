package swarm

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
)

// The reasons for holds.
const (
	// UpdateInProgress means that an update or a rollback is in progress. A write would reset
	// the count of failures, and a rollback would then return to the new version.
	UpdateInProgress = "UpdateInProgress"
	// UpdatePaused means that an update or a rollback is paused. A write would resume it.
	UpdatePaused = "UpdatePaused"
)

// updateBeginning is the time after a change during which tasks of an older version show that an
// update is about to start, because the swarm reports the update with a delay. After this time,
// such tasks need no update, for example because only constraints have changed and the tasks' nodes
// meet them.
const updateBeginning = 10 * time.Second

// beginning reports whether an update is about to start.
func beginning(service *swarm.Service, tasks []*swarm.Task, now time.Time) bool {
	return fresh(service, now) && slices.ContainsFunc(tasks, func(task *swarm.Task) bool {
		made := task.Spec
		made.Runtime = service.Spec.TaskTemplate.Runtime // not set in tasks
		return !stopping(task) && !ended(task) && !reflect.DeepEqual(made, service.Spec.TaskTemplate)
	})
}

// fresh reports whether a service's task template has changed recently and the swarm does not
// report an update yet.
func fresh(service *swarm.Service, now time.Time) bool {
	return service.UpdateStatus == nil && now.Sub(service.UpdatedAt).Abs() < updateBeginning &&
		service.PreviousSpec != nil && !reflect.DeepEqual(service.PreviousSpec.TaskTemplate, service.Spec.TaskTemplate)
}

// hold returns the hold of a service during an update, or nil if the service may be scaled.
func (f *Fleet) hold(service *swarm.Service, tasks []*swarm.Task, now time.Time) *policy.Hold {
	name, detail := service.Spec.Name, ""
	if beginning(service, tasks, now) && !f.config.ScaleDuringUpdate {
		return &policy.Hold{Reason: UpdateInProgress, Message: fmt.Sprintf("service %q has just changed and still has tasks of the previous version", name)}
	}
	status := service.UpdateStatus
	if status == nil {
		return nil
	}
	if status.Message != "" {
		detail = ": " + status.Message
	}
	switch status.State {
	case swarm.UpdateStateUpdating, swarm.UpdateStateRollbackStarted:
		if f.config.ScaleDuringUpdate {
			return nil
		}
		doing := "updated"
		if status.State == swarm.UpdateStateRollbackStarted {
			doing = "rolled back"
		}
		return &policy.Hold{Reason: UpdateInProgress, Message: fmt.Sprintf("service %q is being %s%s", name, doing, detail)}
	case swarm.UpdateStatePaused:
		return &policy.Hold{Reason: UpdatePaused, Message: fmt.Sprintf("the update of service %q is paused%s; resume it with \"docker service update %s\", or undo it with \"docker service rollback %s\"", name, detail, name, name)}
	case swarm.UpdateStateRollbackPaused:
		return &policy.Hold{Reason: UpdatePaused, Message: fmt.Sprintf("the rollback of service %q is paused%s; resume it with \"docker service update %s\"", name, detail, name)}
	}
	return nil
}
