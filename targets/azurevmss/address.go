package azurevmss

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/policy"
	platform "github.com/hpad/hpad/targets/cloud"
)

// networkInterface is what a list says of a network interface.
type networkInterface struct {
	Properties struct {
		Primary *bool `json:"primary"`
		Machine struct {
			ID string `json:"id"`
		} `json:"virtualMachine"`
		Configurations []struct {
			Properties struct {
				Primary *bool  `json:"primary"`
				Address string `json:"privateIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// addressRetry is how long addresses are left alone after they could not be had.
const addressRetry = time.Minute

// learnAddresses looks up the addresses of machines of sets that were just listed, where
// some run that have none yet: one call for a set, or for the resource group of a
// Flexible one.
func (f *Fleet) learnAddresses(ctx context.Context, listed map[key]*membership) {
	if f.config.Addresses == AddressesNone {
		return
	}
	unknown := map[key]map[string]bool{}
	for k, members := range listed {
		for _, m := range members.machines {
			if known, ok := f.memory.Recall(m.id); ok && known.Facts == nil && m.member() && m.phase() == policy.PhaseRunning {
				if unknown[k] == nil {
					unknown[k] = map[string]bool{}
				}
				unknown[k][m.id] = true
			}
		}
	}
	if len(unknown) == 0 {
		return
	}
	f.addresses.Try(addressRetry, func() (struct{}, error) {
		var group errgroup.Group
		group.SetLimit(listing)
		for k, ids := range unknown {
			group.Go(func() error { return f.learnOf(ctx, listed[k].set, ids) })
		}
		return struct{}{}, group.Wait()
	})
}

// learnOf looks up the addresses of some machines of a set.
func (f *Fleet) learnOf(ctx context.Context, s *scaleSet, ids map[string]bool) error {
	base := scope(s.group).path(f.config.Subscription)
	path, version := base+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+s.name+"/networkInterfaces", memberInterfacesVersion
	if s.flexible {
		path, version = base+"/providers/Microsoft.Network/networkInterfaces", interfacesVersion
	}
	found := map[string][]string{}
	err := list(ctx, f, opInterfaces, path, version, func(each networkInterface) {
		id := strings.ToLower(each.Properties.Machine.ID)
		if !ids[id] {
			return
		}
		for _, configuration := range each.Properties.Configurations {
			address := configuration.Properties.Address
			switch {
			case address == "":
			case value(each.Properties.Primary) && value(configuration.Properties.Primary):
				found[id] = append([]string{address}, found[id]...)
			default:
				found[id] = append(found[id], address)
			}
		}
	})
	for id, addresses := range found {
		f.memory.Learn(id, time.Time{}, &platform.Facts{Addresses: addresses})
	}
	if err != nil {
		return fmt.Errorf("list network interfaces of scale set %q: %w", s.key, err)
	}
	return nil
}
