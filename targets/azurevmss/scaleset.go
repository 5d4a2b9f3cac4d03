package azurevmss

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Azure's limits for the number of machines in a scale set, with one placement group and with
// several.
const (
	mostInPlacementGroup = 100
	mostInSet            = 1000
)

// The relevant provisioning states. They are in lower case, because Azure's spelling varies.
const (
	stateCreating  = "creating"
	stateDeleting  = "deleting"
	stateFailed    = "failed"
	stateMigrating = "migrating"
	stateSucceeded = "succeeded"
	stateUpdating  = "updating"
)

type scaleSet struct {
	ID   string `json:"id"`
	ETag string `json:"etag"`
	SKU  struct {
		Name     string `json:"name"`
		Tier     string `json:"tier"`
		Capacity *int32 `json:"capacity"`
	} `json:"sku"`
	Properties struct {
		State       string `json:"provisioningState"`
		Mode        string `json:"orchestrationMode"`
		SingleGroup bool   `json:"singlePlacementGroup"`
		Upgrade     struct {
			Mode string `json:"mode"`
			OS   struct {
				Automatic bool `json:"enableAutomaticOSUpgrade"`
			} `json:"automaticOSUpgradePolicy"`
		} `json:"upgradePolicy"`
		Profile struct {
			Network struct {
				HealthProbe *struct{} `json:"healthProbe"`
			} `json:"networkProfile"`
			Extensions struct {
				List []extension `json:"extensions"`
			} `json:"extensionProfile"`
		} `json:"virtualMachineProfile"`
	} `json:"properties"`

	key key
	// group and name have Azure's spelling; state is in lower case.
	group, name, state string
	// flexible reports whether the orchestration mode is Flexible: the set's machines are then in
	// its resource group. monitored reports whether the set has a health probe or the health
	// extension. upgrading reports whether the set can have rolling upgrades.
	flexible, monitored, upgrading bool
}

type extension struct {
	Properties struct {
		Type string `json:"type"`
	} `json:"properties"`
}

// complete sets the derived fields. It returns false if the set has no valid id.
func (s *scaleSet) complete() bool {
	k, ok := keyOfID(s.ID)
	if !ok {
		return false
	}
	parts, p := strings.Split(strings.Trim(s.ID, "/"), "/"), &s.Properties
	s.key, s.group, s.name, s.state = k, parts[3], parts[7], strings.ToLower(p.State)
	s.flexible = strings.EqualFold(p.Mode, "Flexible")
	s.upgrading = strings.EqualFold(p.Upgrade.Mode, "Rolling") || p.Upgrade.OS.Automatic
	s.monitored = p.Profile.Network.HealthProbe != nil || slices.ContainsFunc(p.Profile.Extensions.List, func(e extension) bool {
		return strings.HasPrefix(strings.ToLower(e.Properties.Type), "applicationhealth")
	})
	return true
}

func setPath(c *Config, group, name string) string {
	return scope(group).path(c.Subscription) + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + name
}

// busy reports whether Azure is changing the set.
func (s *scaleSet) busy() bool {
	return s.state == stateUpdating || s.state == stateCreating || s.state == stateMigrating
}

func groupOf(s *scaleSet) *platform.Group[*scaleSet] {
	most := int32(mostInSet)
	if s.Properties.SingleGroup {
		most = mostInPlacementGroup
	}
	return &platform.Group[*scaleSet]{
		Native: s, Err: s.unscalable(), Size: max(0, *cmp.Or(s.SKU.Capacity, new(int32))), Min: new(int32), Max: &most, Identity: s.ETag,
		Stable: s.state == stateSucceeded,
	}
}

// unscalable returns an error if the set has no capacity that can be changed.
func (s *scaleSet) unscalable() error {
	if s.SKU.Name != "" && s.SKU.Capacity != nil {
		return nil
	}
	return platform.WithReason(NoProfile, fmt.Errorf("%w: scale set %q has no machine profile, so Azure cannot add machines to it", targets.ErrUnscalable, s.key))
}

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

// machine describes an instance of a Uniform or a Flexible set in Azure's format.
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
	// failure is the reason for a failed provisioning.
	failure platformError
}

type status struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// complete sets the derived fields. It returns false if the machine lacks an id or a name.
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

// outdated reports whether a machine does not use the set's latest model.
func (m *machine) outdated() bool { return m.Properties.Latest != nil && !*m.Properties.Latest }

// counts reports whether a machine is part of the set's count. Stopped machines and machines in a
// standby pool are not.
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

// stateText describes the provisioning, the power and the health of a machine.
func (m *machine) stateText() string {
	text := fmt.Sprintf("provisioning %s, power %s", cmp.Or(m.state, "unknown"), cmp.Or(m.power, "unknown"))
	if m.failure.Code != "" {
		text += ", " + m.failure.Code + ": " + m.failure.Message
	}
	if health := &m.Properties.View.Health.Status; m.health != "" {
		text = strings.TrimSuffix("health "+m.health+": "+health.Message, ": ") + "; " + text
	}
	return text
}

func (m *machine) member(monitored bool) platform.Member {
	p := &m.Properties
	member := platform.Member{
		ID: m.Name, Key: m.ID, Handle: m.handle, Name: cmp.Or(p.OS.Computer, p.View.Computer), Phase: m.phase(), Deleting: m.leaving(),
		State: m.stateText(), Readiness: m.readiness(monitored), Launched: p.Created, Since: p.View.Health.Status.Time,
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
	notice.Message = fmt.Sprintf("%d machines could not be provisioned, for example %s: %s", failed, first.Name, notice.Message)
	return notice
}
