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
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// What is looked up of a machine.
const (
	machineFields = "id,name,zone,status,hostname,labels,creationTimestamp,lastStartTimestamp,networkInterfaces(networkIP,ipv6Address,accessConfigs(natIP),ipv6AccessConfigs(externalIpv6))"
	listFields    = "nextPageToken,unreachables,items/*/instances(" + machineFields + ")"
)

// mostAlone is the most machines that are looked up one by one: more take one list of all
// machines of the project.
const mostAlone = 10

// Facts implements cloud.Platform.
func (f *Fleet) Facts(ctx context.Context, unknown map[Target]cloud.Unknown[*compute.InstanceGroupManager]) (map[string]*cloud.Found, error) {
	s, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[string]cloud.Member{}
	for _, of := range unknown {
		maps.Copy(wanted, of.Members)
	}
	if len(wanted) <= mostAlone {
		return s.machines(ctx, wanted)
	}
	return s.allMachines(ctx, wanted)
}

// machines reads every machine alone.
func (s *session) machines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	found := make(map[string]*cloud.Found, len(wanted))
	var mu sync.Mutex
	var group errgroup.Group
	for id, m := range wanted {
		group.Go(func() error {
			zone, name := strings.Split(m.Handle, "/")[1], m.Name
			machine, err := s.service.Instances.Get(s.project, zone, name).Fields(machineFields).Context(reading(ctx, "instances.get")).Do()
			err = sent(err)
			if errors.Is(err, targets.ErrTargetNotFound) {
				return nil // gone meanwhile
			}
			if err != nil {
				return fmt.Errorf("get instance %q of zone %q: %w", name, zone, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[id] = machineOf(machine)
			return nil
		})
	}
	return found, group.Wait()
}

// allMachines lists the machines of the project, and returns the wanted ones.
func (s *session) allMachines(ctx context.Context, wanted map[string]cloud.Member) (map[string]*cloud.Found, error) {
	found := make(map[string]*cloud.Found, len(wanted))
	err := s.service.Instances.AggregatedList(s.project).MaxResults(pageSize).ReturnPartialSuccess(true).Fields(listFields).
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

// machineOf returns the facts of a machine.
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

// failure is why a machine did not start.
type failure struct{ code, message string }

// launchNotice returns why instances do not start, by their own errors; nil when none
// has any.
func launchNotice(members []*compute.ManagedInstance) *policy.Notice {
	counts := map[failure]int{}
	for _, m := range members {
		s := standingOf(m)
		if !s.counted || s.deleting || s.phase == policy.PhaseRunning || m.LastAttempt == nil || m.LastAttempt.Errors == nil {
			continue
		}
		for _, said := range m.LastAttempt.Errors.Errors {
			if said != nil {
				counts[failure{code: said.Code, message: said.Message}]++
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
