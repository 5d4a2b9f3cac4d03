package azurevmss

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	platform "github.com/hpad/hpad/targets/cloud"
)

// networkInterface is what a list says of a network interface.
type networkInterface struct {
	Properties struct {
		Primary bool `json:"primary"`
		Machine struct {
			ID string `json:"id"`
		} `json:"virtualMachine"`
		Configurations []struct {
			Properties struct {
				Primary bool   `json:"primary"`
				Address string `json:"privateIPAddress"`
			} `json:"properties"`
		} `json:"ipConfigurations"`
	} `json:"properties"`
}

// Facts implements cloud.Platform: it looks up the addresses of machines, in one call for a
// set, or for the resource group of a Flexible one.
func (f *Fleet) Facts(ctx context.Context, unknown map[key]platform.Unknown[*scaleSet]) (map[string]*platform.Found, error) {
	if f.config.Addresses == AddressesNone {
		return nil, nil
	}
	found := map[string]*platform.Found{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(listing)
	for _, of := range unknown {
		group.Go(func() error {
			return f.interfaces(ctx, of.Group.Native, func(machine, address string, primary bool) {
				mu.Lock()
				defer mu.Unlock()
				if _, ok := of.Members[machine]; !ok {
					return
				}
				if found[machine] == nil {
					found[machine] = &platform.Found{}
				}
				at := len(found[machine].Facts.Addresses)
				if primary {
					at = 0
				}
				found[machine].Facts.Addresses = slices.Insert(found[machine].Facts.Addresses, at, address)
			})
		})
	}
	return found, group.Wait()
}

// interfaces reads the addresses of the network interfaces of a set or its resource group.
func (f *Fleet) interfaces(ctx context.Context, s *scaleSet, take func(machine, address string, primary bool)) error {
	base := scope(s.group).path(f.config.Subscription)
	path, version := base+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+s.name+"/networkInterfaces", memberInterfacesVersion
	if s.flexible {
		path, version = base+"/providers/Microsoft.Network/networkInterfaces", interfacesVersion
	}
	err := list(ctx, f, opInterfaces, path, version, func(each *networkInterface) {
		for _, configuration := range each.Properties.Configurations {
			if address := configuration.Properties.Address; address != "" {
				take(strings.ToLower(each.Properties.Machine.ID), address, each.Properties.Primary && configuration.Properties.Primary)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list network interfaces of scale set %q: %w", s.key, err)
	}
	return nil
}
