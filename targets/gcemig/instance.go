package gcemig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/guard"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// The fields that are queried.
const (
	machineFields = "id,name,zone,status,hostname,labels,creationTimestamp,lastStartTimestamp,networkInterfaces(networkIP,ipv6Address,accessConfigs(natIP),ipv6AccessConfigs(externalIpv6))"
	listFields    = "nextPageToken,unreachables,items/*/instances(" + machineFields + ")"
)

// maxIndividual is the maximum number of machines that are queried individually. If there are
// more, all machines of the project are listed.
const maxIndividual = 10

// Facts implements cloud.Platform.
func (f *Fleet) Facts(ctx context.Context, s *session, unknown map[Target]cloud.Unknown[*compute.InstanceGroupManager]) (map[string]*cloud.Found, error) {
	wanted := map[string]cloud.Member{}
	for _, of := range unknown {
		maps.Copy(wanted, of.Members)
	}
	if len(wanted) <= maxIndividual {
		return s.machines(ctx, wanted)
	}
	return s.allMachines(ctx, wanted)
}

func (s *session) machines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	members := slices.Collect(maps.Values(wanted))
	machines := make([]*compute.Instance, len(members))
	errs := guard.Each(maxIndividual, members, func(i int, m cloud.Member) error {
		zone := strings.Split(m.Handle, "/")[1]
		machine, err := s.service().Instances.Get(s.project, zone, m.Name).Fields(machineFields).Context(reading(ctx, "instances.get")).Do()
		switch err = sent(err); {
		case errors.Is(err, targets.ErrTargetNotFound): // the machine was deleted
			return nil
		case err != nil:
			return fmt.Errorf("get instance %q of zone %q: %w", m.Name, zone, err)
		}
		machines[i] = machine
		return nil
	})
	found := make(map[string]*cloud.Found, len(wanted))
	for i, m := range members {
		if machines[i] != nil {
			found[m.ID] = machineOf(machines[i])
		}
	}
	return found, cmp.Or(errs...)
}

func (s *session) allMachines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	found := make(map[string]*cloud.Found, len(wanted))
	err := s.service().Instances.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).Fields(listFields).
		Pages(reading(ctx, "instances.aggregatedList"), func(page *compute.InstanceAggregatedList) error {
			for _, scope := range page.Items {
				for _, machine := range scope.Instances {
					id := strconv.FormatUint(machine.Id, 10)
					if _, ok := wanted[id]; ok {
						found[id] = machineOf(machine)
					}
				}
			}
			return nil
		})
	if err != nil {
		return found, fmt.Errorf("list instances of project %q: %w", s.project, sent(err))
	}
	return found, nil
}

func machineOf(answer *compute.Instance) *cloud.Found {
	found := &cloud.Found{Facts: cloud.Facts{Name: answer.Name, Labels: answer.Labels}}
	for _, text := range []string{answer.LastStartTimestamp, answer.CreationTimestamp} {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			found.Launched = at
			break
		}
	}
	add := func(address string) {
		if address != "" {
			found.Facts.Addresses = append(found.Facts.Addresses, address)
		}
	}
	for _, network := range answer.NetworkInterfaces {
		add(network.NetworkIP)
		add(network.Ipv6Address)
	}
	add(answer.Hostname)
	for _, network := range answer.NetworkInterfaces {
		for _, access := range network.AccessConfigs {
			add(access.NatIP)
		}
		for _, access := range network.Ipv6AccessConfigs {
			add(access.ExternalIpv6)
		}
	}
	return found
}

// The actions of the platform (currentAction), and the states of the machine (instanceStatus).
var (
	comingActions = []string{"CREATING", "CREATING_WITHOUT_RETRIES", "VERIFYING", "RECREATING", "RESTARTING", "STARTING", "RESUMING"}
	goingActions  = []string{"DELETING", "ABANDONING", "STOPPING", "SUSPENDING"}

	comingStatuses = []string{"", "PENDING", "PROVISIONING", "STAGING"}
	goingStatuses  = []string{"STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"}
	// idleStatuses are the states of machines in a standby pool, and of stopped machines.
	idleStatuses = []string{"STOPPED", "SUSPENDED", "TERMINATED"}
)

const (
	statusRunning = "RUNNING"
	actionNone    = "NONE"
	healthHealthy = "HEALTHY"
	healthUnknown = "UNKNOWN"
)

type memberState struct {
	counted  bool
	phase    policy.Phase
	deleting bool
}

// memberStateOf returns the state of an instance. The platform's current action takes precedence
// over the machine's status.
func memberStateOf(m *compute.ManagedInstance) memberState {
	switch {
	case slices.Contains(comingActions, m.CurrentAction):
		return memberState{counted: true, phase: policy.PhasePending}
	case slices.Contains(goingActions, m.CurrentAction), slices.Contains(goingStatuses, m.InstanceStatus):
		return memberState{counted: true, phase: goingPhase(m.InstanceStatus), deleting: true}
	case slices.Contains(idleStatuses, m.InstanceStatus):
		return memberState{}
	case m.InstanceStatus == statusRunning:
		return memberState{counted: true, phase: policy.PhaseRunning}
	case slices.Contains(comingStatuses, m.InstanceStatus):
		return memberState{counted: true, phase: policy.PhasePending}
	}
	return memberState{counted: true, phase: policy.PhaseUnknown}
}

func goingPhase(status string) policy.Phase {
	switch {
	case status == statusRunning:
		return policy.PhaseRunning
	case slices.Contains(comingStatuses, status):
		return policy.PhasePending
	}
	return policy.PhaseUnknown
}

// healthOf returns the readiness of a running instance according to its health checks, or
// ReadinessNotKnown if a result is missing. A running instance without a health check is ready.
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

// idOf returns the machine's id, or the instance's name if it has no machine yet.
func idOf(m *compute.ManagedInstance) string {
	if m.Id == 0 {
		return nameOf(m)
	}
	return strconv.FormatUint(m.Id, 10)
}

func nameOf(m *compute.ManagedInstance) string { return cmp.Or(m.Name, lastSegments(m.Instance, 1)) }

func zoneOf(m *compute.ManagedInstance) string {
	zone, _, found := strings.Cut(lastSegments(m.Instance, 3), "/") // …/zones/ZONE/instances/NAME
	if !found {
		return ""
	}
	return zone
}

// memberOf converts an instance for package cloud. It returns false if the instance is not
// counted.
func memberOf(m *compute.ManagedInstance, watched bool) (cloud.Member, bool) {
	s := memberStateOf(m)
	member := cloud.Member{
		ID: idOf(m), Handle: fmt.Sprintf("zones/%s/instances/%s", zoneOf(m), nameOf(m)), Name: nameOf(m),
		Phase: s.phase, Deleting: s.deleting, Readiness: policy.ReadinessFalse,
	}
	if s.phase == policy.PhaseRunning {
		member.Readiness = healthOf(m, watched)
	}
	member.State = stateText(m)
	return member, s.counted
}

// stateText describes the action, the status and the health of an instance.
func stateText(m *compute.ManagedInstance) string {
	text := "status " + cmp.Or(m.InstanceStatus, "without a machine")
	if m.CurrentAction != "" && m.CurrentAction != actionNone {
		text = "action " + m.CurrentAction + ", " + text
	}
	for _, health := range m.InstanceHealth {
		if health != nil && health.DetailedHealthState != healthHealthy {
			text += fmt.Sprintf(", health check %s: %s", lastSegments(health.HealthCheck, 1), cmp.Or(health.DetailedHealthState, healthUnknown))
		}
	}
	return text
}

type failure struct{ code, message string }

func launchNotice(members []*compute.ManagedInstance) *policy.Notice {
	counts := map[failure]int{}
	for _, m := range members {
		s := memberStateOf(m)
		if !s.counted || s.deleting || s.phase == policy.PhaseRunning || m.LastAttempt == nil || m.LastAttempt.Errors == nil {
			continue
		}
		for _, sentences := range m.LastAttempt.Errors.Errors {
			if sentences != nil {
				counts[failure{code: sentences.Code, message: sentences.Message}]++
				break
			}
		}
	}
	if len(counts) == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b failure) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a.code, b.code), strings.Compare(a.message, b.message))
	})[0]
	return &policy.Notice{
		Condition: cloud.InsufficientCapacity, Reason: launchReason(most.code),
		Message: fmt.Sprintf("%d instances do not start: %s: %s", counts[most], most.code, most.message),
	}
}
