package azurevmss

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

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

// addresses remembers why addresses could not be looked up. It is safe for
// concurrent use; the zero value is ready.
type addresses struct {
	mu  sync.Mutex
	err error
	// again is when they are looked up again after that.
	again time.Time
}

// addressRetry is how long addresses are left alone after they could not be had.
const addressRetry = time.Minute

// learn looks up the addresses of the machines of a set, if some run that have none
// yet: one call for the set, or for the resource group of a Flexible one.
func (a *addresses) learn(ctx context.Context, f *Fleet, s *scaleSet, machines []*machine, now time.Time) {
	if f.config.Addresses == AddressesNone || !a.due(now) {
		return
	}
	unknown := map[string]bool{}
	for _, m := range machines {
		if known, ok := f.memory.Recall(m.id); ok && known.Facts == nil && m.member() && m.phase() == policy.PhaseRunning {
			unknown[m.id] = true
		}
	}
	if len(unknown) == 0 {
		return
	}
	base := scope(s.group).path(f.config.Subscription)
	path, version := base+"/providers/Microsoft.Compute/virtualMachineScaleSets/"+s.name+"/networkInterfaces", memberInterfacesVersion
	if s.flexible {
		path, version = base+"/providers/Microsoft.Network/networkInterfaces", interfacesVersion
	}
	found := map[string][]string{}
	err := list(ctx, f, opInterfaces, path, version, func(each networkInterface) {
		id := strings.ToLower(each.Properties.Machine.ID)
		if !unknown[id] {
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
	a.note(err, s, now)
	for id, addresses := range found {
		f.memory.Learn(id, time.Time{}, &platform.Facts{Addresses: addresses})
	}
}

func (a *addresses) due(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !now.Before(a.again)
}

func (a *addresses) note(err error, s *scaleSet, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err, a.again = nil, time.Time{}
	if err != nil {
		a.err, a.again = fmt.Errorf("list network interfaces of scale set %q: %w", s.key, err), now.Add(addressRetry)
	}
}

// problem says why machines have no addresses; "" when they have.
func (a *addresses) problem() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		return ""
	}
	return `addresses of machines are not known, so that no series finds one by match = "address" (addresses = "none" leaves them out): ` + a.err.Error()
}
