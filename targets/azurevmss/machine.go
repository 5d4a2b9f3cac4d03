package azurevmss

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// The power states of machines, in lower case.
const (
	powerRunning      = "running"
	powerStarting     = "starting"
	powerStopping     = "stopping"
	powerStopped      = "stopped"
	powerDeallocating = "deallocating"
	powerDeallocated  = "deallocated"
)

// The health of machines, in lower case.
const (
	healthHealthy = "healthy"
	healthUnknown = "unknown"
)

// machine is what Azure says of a machine of a scale set.
type machine struct {
	// id is the resource's, in lower case, and name its last part.
	id, name string
	// handle is what a deletion names the machine by.
	handle string
	// computer is the host name that the machine knows itself by.
	computer string
	vmID     string
	zone     string
	tags     map[string]string
	// state, power and health are in lower case; empty where Azure does not say.
	state, power, health string
	// poweredAt and healthAt are since when; zero where Azure does not say.
	created, poweredAt, healthAt time.Time
	// failure is why the machine could not be provisioned, where it could not.
	failure   platformError
	protected bool
	// standby machines wait in a pool beside the count.
	standby bool
	// outdated machines are not of the set's latest model.
	outdated bool
}

// memberOf reads a machine of a Uniform set.
func memberOf(from *armcompute.VirtualMachineScaleSetVM) (*machine, bool) {
	if from == nil || value(from.ID) == "" || value(from.InstanceID) == "" {
		return nil, false
	}
	m := &machine{id: strings.ToLower(*from.ID), name: cmp.Or(value(from.Name), *from.InstanceID), handle: *from.InstanceID, tags: tagsOf(from.Tags), zone: zoneOf(from.Zones)}
	p := from.Properties
	if p == nil {
		return m, true
	}
	m.describe(p.ProvisioningState, p.TimeCreated, p.VMID, p.OSProfile)
	m.outdated = p.LatestModelApplied != nil && !*p.LatestModelApplied
	if protection := p.ProtectionPolicy; protection != nil {
		m.protected = value(protection.ProtectFromScaleIn) || value(protection.ProtectFromScaleSetActions)
	}
	if view := p.InstanceView; view != nil {
		m.view(view.Statuses, view.VMHealth, view.ComputerName)
	}
	return m, true
}

// machineOf reads a machine of a Flexible set.
func machineOf(from *armcompute.VirtualMachine) (*machine, bool) {
	if from == nil || value(from.ID) == "" || value(from.Name) == "" {
		return nil, false
	}
	m := &machine{id: strings.ToLower(*from.ID), name: *from.Name, handle: *from.Name, tags: tagsOf(from.Tags), zone: zoneOf(from.Zones)}
	p := from.Properties
	if p == nil {
		return m, true
	}
	m.describe(p.ProvisioningState, p.TimeCreated, p.VMID, p.OSProfile)
	if view := p.InstanceView; view != nil {
		m.view(view.Statuses, view.VMHealth, view.ComputerName)
		m.standby = value(view.IsVMInStandbyPool)
	}
	return m, true
}

func (m *machine) describe(state *string, created *time.Time, vmID *string, profile *armcompute.OSProfile) {
	m.state, m.created, m.vmID = strings.ToLower(value(state)), value(created), value(vmID)
	if profile != nil {
		m.computer = value(profile.ComputerName)
	}
}

// view reads an instance view.
func (m *machine) view(statuses []*armcompute.InstanceViewStatus, health *armcompute.VirtualMachineHealthStatus, computer *string) {
	m.computer = cmp.Or(m.computer, value(computer))
	for _, status := range statuses {
		if status == nil {
			continue
		}
		subject, rest, _ := strings.Cut(value(status.Code), "/")
		word, code, _ := strings.Cut(rest, "/")
		switch {
		case strings.EqualFold(subject, "PowerState"):
			m.power, m.poweredAt = strings.ToLower(word), value(status.Time)
		case strings.EqualFold(subject, "ProvisioningState") && strings.EqualFold(word, stateFailed):
			m.failure = platformError{Code: code, Message: value(status.Message)}
		}
	}
	if health != nil && health.Status != nil {
		_, word, _ := strings.Cut(value(health.Status.Code), "/")
		m.health, m.healthAt = strings.ToLower(word), value(health.Status.Time)
	}
}

func tagsOf(from map[string]*string) map[string]string {
	tags := make(map[string]string, len(from))
	for name, text := range from {
		tags[name] = value(text)
	}
	return tags
}

func zoneOf(zones []*string) string {
	if len(zones) == 0 {
		return ""
	}
	return value(zones[0])
}

// member reports whether a machine is one of the set's count, or was: those that are
// switched off, or wait in a standby pool, are not.
func (m *machine) member() bool {
	return !m.standby && m.power != powerStopped && m.power != powerDeallocated
}

// leaving reports whether a machine is being deleted or switched off.
func (m *machine) leaving() bool {
	return m.state == stateDeleting || m.power == powerStopping || m.power == powerDeallocating
}

// phase returns where a machine is in its life.
func (m *machine) phase() policy.Phase {
	switch {
	case m.state == stateFailed:
		return policy.PhaseFailed
	case m.state == stateCreating, m.power == powerStarting:
		return policy.PhasePending
	case m.power == powerRunning, m.power != "" && m.leaving():
		return policy.PhaseRunning
	}
	return policy.PhaseUnknown
}

// readiness returns the health of a machine.
func (m *machine) readiness(monitored bool) policy.Readiness {
	switch {
	case m.phase() == policy.PhaseUnknown:
		return policy.ReadinessNotKnown // what it was counts on
	case m.phase() != policy.PhaseRunning:
		return policy.ReadinessFalse
	case m.health == healthHealthy:
		return policy.ReadinessTrue
	case m.health == healthUnknown:
		return policy.ReadinessUnknown
	case m.health != "": // unhealthy or initializing
		return policy.ReadinessFalse
	case monitored:
		return policy.ReadinessNotKnown
	}
	return policy.ReadinessTrue
}

// sighting returns what is to be remembered of a machine.
func (m *machine) sighting(monitored bool) platform.Sighting {
	seen := platform.Sighting{Launched: m.created, Readiness: m.readiness(monitored), Since: m.healthAt}
	if m.power == powerRunning && m.poweredAt.After(m.created) {
		seen.Launched = m.poweredAt
	}
	if seen.Readiness == policy.ReadinessTrue && seen.Since.IsZero() {
		seen.Since = seen.Launched
	}
	return seen
}

// instance returns what a machine is to policy, and where it is to be found.
func (m *machine) instance(known platform.Record) (policy.Instance, targets.Location) {
	location := targets.Location{Name: m.computer, Protected: m.protected}
	if known.Facts != nil {
		location.Addresses = known.Facts.Addresses
	}
	if len(m.tags) > 0 || m.zone != "" || m.vmID != "" {
		location.Labels = maps.Clone(m.tags)
		if m.zone != "" {
			location.Labels["zone"] = m.zone
		}
		if m.vmID != "" {
			location.Labels["vm_id"] = m.vmID
		}
	}
	return policy.Instance{
		ID: m.name, Phase: m.phase(), Readiness: known.Readiness, Deleting: m.leaving(),
		StartedAt: known.Started(), ReadinessChanged: known.Changed,
	}, location
}

// settled reports whether nothing of a set is about to change by itself.
func settled(s *scaleSet, machines []*machine) bool {
	ready := int32(0)
	for _, m := range machines {
		if !m.member() {
			continue
		}
		if m.leaving() || m.phase() != policy.PhaseRunning || m.readiness(s.monitored) != policy.ReadinessTrue {
			return false
		}
		ready++
	}
	return s.state == stateSucceeded && ready == s.capacity
}

// ordered sorts machines by their ids.
func ordered(machines []*machine) []*machine {
	slices.SortFunc(machines, func(a, b *machine) int { return strings.Compare(a.id, b.id) })
	return machines
}
