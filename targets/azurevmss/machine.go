package azurevmss

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
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

// machine is a machine of a Uniform or a Flexible set in Azure's format.
type machine struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	InstanceID string            `json:"instanceId"`
	Zones      []string          `json:"zones"`
	Tags       map[string]string `json:"tags"`
	Properties struct {
		State   string    `json:"provisioningState"`
		Created time.Time `json:"timeCreated"`
		VMID    string    `json:"vmId"`
		Latest  *bool     `json:"latestModelApplied"`
		Set     struct {
			ID string `json:"id"`
		} `json:"virtualMachineScaleSet"`
		OS struct {
			Computer string `json:"computerName"`
		} `json:"osProfile"`
		Protection struct {
			ScaleIn bool `json:"protectFromScaleIn"`
			Actions bool `json:"protectFromScaleSetActions"`
		} `json:"protectionPolicy"`
		View struct {
			Computer string   `json:"computerName"`
			Standby  bool     `json:"isVMInStandbyPool"`
			Statuses []status `json:"statuses"`
			Health   struct {
				Status status `json:"status"`
			} `json:"vmHealth"`
		} `json:"instanceView"`
	} `json:"properties"`

	handle string
	// state, power and health are in lower case; empty if Azure does not report them.
	state, power, health string
	poweredAt            time.Time
	// failure is the reason of a failed provisioning.
	failure platformError
}

type status struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// complete sets the derived fields; false for a machine without names.
func (m *machine) complete(flexible bool) bool {
	m.ID, m.handle = strings.ToLower(m.ID), m.InstanceID
	if flexible {
		m.handle = m.Name
	}
	m.Name = cmp.Or(m.Name, m.InstanceID)
	m.state = strings.ToLower(m.Properties.State)
	for _, status := range m.Properties.View.Statuses {
		subject, rest, _ := strings.Cut(status.Code, "/")
		word, code, _ := strings.Cut(rest, "/")
		switch {
		case strings.EqualFold(subject, "PowerState"):
			m.power, m.poweredAt = strings.ToLower(word), status.Time
		case strings.EqualFold(subject, "ProvisioningState") && strings.EqualFold(word, stateFailed):
			m.failure = platformError{Code: code, Message: status.Message}
		}
	}
	_, health, _ := strings.Cut(m.Properties.View.Health.Status.Code, "/")
	m.health = strings.ToLower(health)
	return m.ID != "" && m.handle != ""
}

// outdated reports whether a machine does not have the set's latest model.
func (m *machine) outdated() bool { return m.Properties.Latest != nil && !*m.Properties.Latest }

// counts reports whether a machine belongs to the set's count. Stopped machines and machines in a
// standby pool do not.
func (m *machine) counts() bool {
	return !m.Properties.View.Standby && m.power != powerStopped && m.power != powerDeallocated
}

// leaving reports whether a machine is being deleted or stopped.
func (m *machine) leaving() bool {
	return m.state == stateDeleting || m.power == powerStopping || m.power == powerDeallocating
}

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

func (m *machine) readiness(monitored bool) policy.Readiness {
	switch {
	case m.phase() == policy.PhaseUnknown:
		return policy.ReadinessNotKnown // keep the previous readiness
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

func (m *machine) member(monitored bool) platform.Member {
	p := &m.Properties
	member := platform.Member{
		ID: m.Name, Key: m.ID, Handle: m.handle, Name: cmp.Or(p.OS.Computer, p.View.Computer), Phase: m.phase(), Deleting: m.leaving(),
		Readiness: m.readiness(monitored), Launched: p.Created, Since: p.View.Health.Status.Time,
		Protected: p.Protection.ScaleIn || p.Protection.Actions, Labels: map[string]string{},
	}
	if m.power == powerRunning && m.poweredAt.After(p.Created) {
		member.Launched = m.poweredAt
	}
	maps.Copy(member.Labels, m.Tags)
	if len(m.Zones) > 0 {
		member.Labels["zone"] = m.Zones[0]
	}
	if p.VMID != "" {
		member.Labels["vm_id"] = p.VMID
	}
	return member
}

func failedMachines(machines []*machine) *policy.Notice {
	failed := 0
	var first *machine
	for _, m := range machines {
		if m.counts() && m.state == stateFailed {
			failed++
			if first == nil || first.failure.Code == "" {
				first = m
			}
		}
	}
	if first == nil {
		return nil
	}
	notice := shortage(first.failure.Code, first.failure.Message)
	notice.Message = fmt.Sprintf("%d machines could not be provisioned, as %s: %s", failed, first.Name, notice.Message)
	return notice
}
