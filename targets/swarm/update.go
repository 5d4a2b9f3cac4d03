package swarm

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/docker/docker/api/types/swarm"

	"github.com/hpad/hpad/policy"
)

// The reasons of holds.
const (
	// UpdateInProgress: a write while a service is updated or rolled back makes
	// the new version the one that a rollback returns to, and failures are counted
	// from zero again.
	UpdateInProgress = "UpdateInProgress"
	// UpdatePaused: a write would start a stopped update or rollback again.
	UpdatePaused = "UpdatePaused"
)

// updateBeginning is how long after a change tasks of an older version are taken for an
// update that is about to begin, which the swarm shows after a moment. Later they are
// such as need none, as after a change of constraints that their nodes fulfill.
const updateBeginning = 10 * time.Second

// beginning reports whether an update is about to begin.
func beginning(service *swarm.Service, tasks []*swarm.Task, now time.Time) bool {
	return fresh(service, now) && slices.ContainsFunc(tasks, func(task *swarm.Task) bool {
		made := task.Spec
		made.Runtime = service.Spec.TaskTemplate.Runtime // which tasks do not have
		return !stopping(task) && !ended(task) && !reflect.DeepEqual(made, service.Spec.TaskTemplate)
	})
}

// fresh reports whether the last change of a service was just now and one of its tasks'
// template, and the swarm does not show what became of it.
func fresh(service *swarm.Service, now time.Time) bool {
	return service.UpdateStatus == nil && now.Sub(service.UpdatedAt).Abs() < updateBeginning &&
		service.PreviousSpec != nil && !reflect.DeepEqual(service.PreviousSpec.TaskTemplate, service.Spec.TaskTemplate)
}

// hold returns why a service with such tasks must not be scaled now; nil when it may be.
func (f *Fleet) hold(service *swarm.Service, tasks []*swarm.Task, now time.Time) *policy.Hold {
	name, said := service.Spec.Name, ""
	if beginning(service, tasks, now) && !f.config.ScaleDuringUpdate {
		return &policy.Hold{Reason: UpdateInProgress, Message: fmt.Sprintf("service %q was changed just now, and has tasks of the version before", name)}
	}
	status := service.UpdateStatus
	if status == nil {
		return nil
	}
	if status.Message != "" {
		said = ": " + status.Message
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
		return &policy.Hold{Reason: UpdateInProgress, Message: fmt.Sprintf("service %q is being %s%s", name, doing, said)}
	case swarm.UpdateStatePaused:
		return &policy.Hold{Reason: UpdatePaused, Message: fmt.Sprintf("the update of service %q is paused%s; go on with \"docker service update\", or back with \"docker service rollback\"", name, said)}
	case swarm.UpdateStateRollbackPaused:
		return &policy.Hold{Reason: UpdatePaused, Message: fmt.Sprintf("the rollback of service %q is paused%s; go on with \"docker service update\"", name, said)}
	}
	return nil
}
