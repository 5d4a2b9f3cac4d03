package azurevmss

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"

	"github.com/hpad/hpad/targets"
)

// The most machines that Azure lets a scale set have: in one placement group, and
// else.
const (
	mostInPlacementGroup = 100
	mostInSet            = 1000
)

// The provisioning states of a scale set and of machines that matter, in lower
// case, as Azure does not keep to one.
const (
	stateCreating  = "creating"
	stateDeleting  = "deleting"
	stateFailed    = "failed"
	stateMigrating = "migrating"
	stateSucceeded = "succeeded"
	stateUpdating  = "updating"
)

// scaleSet is what Azure says of a scale set.
type scaleSet struct {
	key key
	// id, group and name are as Azure writes them.
	id, group, name string
	capacity        int32
	skuName         string
	skuTier         string
	etag            string
	// state is the provisioning state, in lower case.
	state string
	// sized sets have a size and a count of machines.
	sized    bool
	flexible bool
	// monitored sets have the health of their machines looked at.
	monitored bool
	// upgrading sets can have rolling upgrades.
	upgrading bool
	// single sets keep to one placement group.
	single bool
}

// scaleSetOf reads a scale set; false for one without a name.
func scaleSetOf(from *armcompute.VirtualMachineScaleSet) (*scaleSet, bool) {
	if from == nil || from.ID == nil {
		return nil, false
	}
	k, ok := keyOfID(*from.ID)
	if !ok {
		return nil, false
	}
	parts := strings.Split(strings.Trim(*from.ID, "/"), "/")
	s := &scaleSet{key: k, id: *from.ID, group: parts[3], name: parts[7], etag: value(from.Etag)}
	if from.SKU != nil && from.SKU.Capacity != nil && *from.SKU.Capacity >= 0 && *from.SKU.Capacity <= math.MaxInt32 {
		s.sized = value(from.SKU.Name) != ""
		s.capacity = int32(*from.SKU.Capacity)
		s.skuName, s.skuTier = value(from.SKU.Name), value(from.SKU.Tier)
	}
	properties := from.Properties
	if properties == nil {
		return s, true
	}
	s.state = strings.ToLower(value(properties.ProvisioningState))
	s.flexible = strings.EqualFold(string(value(properties.OrchestrationMode)), string(armcompute.OrchestrationModeFlexible))
	s.single = value(properties.SinglePlacementGroup)
	s.monitored = monitored(properties.VirtualMachineProfile)
	if upgrade := properties.UpgradePolicy; upgrade != nil {
		s.upgrading = strings.EqualFold(string(value(upgrade.Mode)), string(armcompute.UpgradeModeRolling)) ||
			upgrade.AutomaticOSUpgradePolicy != nil && value(upgrade.AutomaticOSUpgradePolicy.EnableAutomaticOSUpgrade)
	}
	return s, true
}

// monitored reports whether a profile has a health probe or the health extension.
func monitored(profile *armcompute.VirtualMachineScaleSetVMProfile) bool {
	switch {
	case profile == nil:
		return false
	case profile.NetworkProfile != nil && profile.NetworkProfile.HealthProbe != nil:
		return true
	case profile.ExtensionProfile == nil:
		return false
	}
	return slices.ContainsFunc(profile.ExtensionProfile.Extensions, func(e *armcompute.VirtualMachineScaleSetExtension) bool {
		return e != nil && e.Properties != nil && strings.HasPrefix(strings.ToLower(value(e.Properties.Type)), "applicationhealth")
	})
}

// value returns what a pointer points at; the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

// highest returns the most machines that the set may have.
func (s *scaleSet) highest() *int32 {
	most := int32(mostInSet)
	if s.single {
		most = mostInPlacementGroup
	}
	return &most
}

// busy reports whether the platform works on the set.
func (s *scaleSet) busy() bool {
	return s.state == stateUpdating || s.state == stateCreating || s.state == stateMigrating
}

// version returns the version of a reading: what has to be as it was for a write.
func (s *scaleSet) version() string {
	return strings.TrimSpace(strconv.Itoa(int(s.capacity)) + " " + s.etag)
}

// compare returns an ErrConflict where the set is not at a version; an empty one is
// not compared.
func (s *scaleSet) compare(version string) error {
	if version == "" || version == s.version() {
		return nil
	}
	capacity, etag, _ := strings.Cut(version, " ")
	if capacity == strconv.Itoa(int(s.capacity)) && (etag == "" || s.etag == "") {
		return nil // it was read without ETag once
	}
	return fmt.Errorf("%w: scale set %q was at %s and is at %s now", targets.ErrConflict, s.key, version, s.version())
}

// unscalable returns why the set has no count that could be changed; nil when it
// has one.
func (s *scaleSet) unscalable() error {
	if s.sized {
		return nil
	}
	return reasoned(NoProfile, fmt.Errorf("%w: scale set %q has no machine profile, so that Azure cannot add machines to it", targets.ErrUnscalable, s.key))
}

// change is an accepted change of a scale set.
type change struct {
	capacity int32
	// etag is the set's from then on; empty where Azure did not say.
	etag string
}

// apply makes the set what changes made of it. Of changes at the same time the one that
// comes last may be the one that the set shows.
func (s *scaleSet) apply(changes []change) {
	before := s.version()
	for _, c := range changes {
		s.capacity, s.etag = c.capacity, cmp.Or(c.etag, s.etag)
	}
	if s.version() != before && !s.busy() {
		s.state = stateUpdating
	}
}
