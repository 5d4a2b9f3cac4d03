package azurevmss

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

// Azure's limits of machines in a scale set, with one placement group and with several.
const (
	mostInPlacementGroup = 100
	mostInSet            = 1000
)

// The provisioning states that matter, in lower case, because Azure uses both cases.
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
	// group and name are in Azure's spelling, state is in lower case.
	group, name, state string
	// flexible sets have their machines in the resource group, monitored sets have a health probe
	// or the health extension, upgrading sets can have rolling upgrades.
	flexible, monitored, upgrading bool
}

type extension struct {
	Properties struct {
		Type string `json:"type"`
	} `json:"properties"`
}

// complete sets the derived fields; false for a set without a valid id.
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

func (s *scaleSet) path(c *Config) string { return setPath(c, s.group, s.name) }

func setPath(c *Config, group, name string) string {
	return scope(group).path(c.Subscription) + "/providers/Microsoft.Compute/virtualMachineScaleSets/" + name
}

func (s *scaleSet) highest() *int32 {
	most := int32(mostInSet)
	if s.Properties.SingleGroup {
		most = mostInPlacementGroup
	}
	return &most
}

// busy reports whether Azure is changing the set.
func (s *scaleSet) busy() bool {
	return s.state == stateUpdating || s.state == stateCreating || s.state == stateMigrating
}

func groupOf(s *scaleSet) *platform.Group[*scaleSet] {
	return &platform.Group[*scaleSet]{
		Native: s, Err: s.unscalable(), Size: max(0, *cmp.Or(s.SKU.Capacity, new(int32))), Min: new(int32), Max: s.highest(), Identity: s.ETag,
		Stable: s.state == stateSucceeded,
	}
}

// unscalable returns an error if the set has no count that can be changed.
func (s *scaleSet) unscalable() error {
	if s.SKU.Name != "" && s.SKU.Capacity != nil {
		return nil
	}
	return platform.Reasoned(NoProfile, fmt.Errorf("%w: scale set %q has no machine profile, so that Azure cannot add machines to it", targets.ErrUnscalable, s.key))
}
