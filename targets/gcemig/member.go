package gcemig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/cloud"
)

// What the platform is doing with an instance (currentAction), and how its machine
// is doing (instanceStatus).
var (
	comingActions = []string{"CREATING", "CREATING_WITHOUT_RETRIES", "VERIFYING", "RECREATING", "RESTARTING", "STARTING", "RESUMING"}
	goingActions  = []string{"DELETING", "ABANDONING", "STOPPING", "SUSPENDING"}

	comingStatuses = []string{"", "PENDING", "PROVISIONING", "STAGING"}
	goingStatuses  = []string{"STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"}
	// idleStatuses are those of machines in a standby pool, and of dead ones.
	idleStatuses = []string{"STOPPED", "SUSPENDED", "TERMINATED"}
)

const (
	statusRunning = "RUNNING"
	actionNone    = "NONE"
	healthHealthy = "HEALTHY"
	healthUnknown = "UNKNOWN"
)

// standing is what a member of a group is to policy.
type standing struct {
	// counted reports whether it is an instance at all.
	counted  bool
	phase    policy.Phase
	deleting bool
}

// standingOf judges by what the platform is doing with an instance, then by how its
// machine is doing.
func standingOf(m *compute.ManagedInstance) standing {
	switch {
	case slices.Contains(comingActions, m.CurrentAction):
		return standing{counted: true, phase: policy.PhasePending}
	case slices.Contains(goingActions, m.CurrentAction), slices.Contains(goingStatuses, m.InstanceStatus):
		return standing{counted: true, phase: goingPhase(m.InstanceStatus), deleting: true}
	case slices.Contains(idleStatuses, m.InstanceStatus):
		return standing{}
	case m.InstanceStatus == statusRunning:
		return standing{counted: true, phase: policy.PhaseRunning}
	case slices.Contains(comingStatuses, m.InstanceStatus):
		return standing{counted: true, phase: policy.PhasePending}
	}
	return standing{counted: true, phase: policy.PhaseUnknown}
}

// goingPhase is the phase of an instance on its way out.
func goingPhase(status string) policy.Phase {
	switch {
	case status == statusRunning:
		return policy.PhaseRunning
	case slices.Contains(comingStatuses, status):
		return policy.PhasePending
	}
	return policy.PhaseUnknown
}

// healthOf returns the readiness of a running instance: what its health checks say,
// and ReadinessNotKnown as long as one says nothing. Without a health check a running
// instance is ready.
func healthOf(m *compute.ManagedInstance, watched bool) policy.Readiness {
	if !watched {
		return policy.ReadinessTrue
	}
	healthy := false
	for _, health := range m.InstanceHealth {
		if health == nil {
			continue
		}
		switch health.DetailedHealthState {
		case healthHealthy:
			healthy = true
		case "", healthUnknown:
			return policy.ReadinessNotKnown
		default:
			return policy.ReadinessFalse
		}
	}
	if !healthy {
		return policy.ReadinessNotKnown
	}
	return policy.ReadinessTrue
}

// idOf returns the id of an instance: that of its machine, or its name as long as it
// has none.
func idOf(m *compute.ManagedInstance) string {
	if m.Id == 0 {
		return nameOf(m)
	}
	return strconv.FormatUint(m.Id, 10)
}

func nameOf(m *compute.ManagedInstance) string { return cmp.Or(m.Name, lastSegments(m.Instance, 1)) }

// zoneOf returns the zone of an instance, from its address.
func zoneOf(m *compute.ManagedInstance) string {
	zone, _, found := strings.Cut(lastSegments(m.Instance, 3), "/") // …/zones/ZONE/instances/NAME
	if !found {
		return ""
	}
	return zone
}

// memberOf returns an instance for the skeleton; false for one that does not count.
func memberOf(m *compute.ManagedInstance, watched bool) (cloud.Member, bool) {
	s := standingOf(m)
	member := cloud.Member{
		ID: idOf(m), Handle: fmt.Sprintf("zones/%s/instances/%s", zoneOf(m), nameOf(m)), Name: nameOf(m),
		Phase: s.phase, Deleting: s.deleting, Readiness: policy.ReadinessFalse,
	}
	if s.phase == policy.PhaseRunning {
		member.Readiness = healthOf(m, watched)
	}
	return member, s.counted
}
