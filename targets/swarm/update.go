package swarm

import (
	"fmt"

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

// hold answers why a service must not be scaled now; nil when it may be.
func (f *Fleet) hold(service *swarm.Service) *policy.Hold {
	status := service.UpdateStatus
	if status == nil {
		return nil
	}
	name, said := service.Spec.Name, ""
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
