package azurevmss

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"golang.org/x/sync/errgroup"
)

const (
	// mostGroups is how many resource groups are listed one by one before the whole
	// subscription is, with ListAuto.
	mostGroups = 4
	// listing is how many lists are read at once.
	listing = 16
)

// scope is what one list covers: a resource group in lower case, or "" for the
// subscription.
type scope string

// scopes returns what is listed for some scale sets.
func (c *Config) scopes(wanted map[key]bool) []scope {
	groups := map[scope]bool{}
	for k := range wanted {
		groups[scope(k.group)] = true
	}
	if c.ListBy == ListSubscription || c.ListBy == ListAuto && len(groups) > mostGroups {
		return []scope{""}
	}
	return slices.Sorted(maps.Keys(groups))
}

// path returns the path of a scope in a subscription.
func (s scope) path(subscription string) string {
	if s == "" {
		return "/subscriptions/" + subscription
	}
	return "/subscriptions/" + subscription + "/resourceGroups/" + string(s)
}

// String returns the scope in words.
func (s scope) String() string {
	if s == "" {
		return "the subscription"
	}
	return fmt.Sprintf("resource group %q", string(s))
}

// setsListing is what the lists of scale sets say.
type setsListing struct {
	sets map[key]*scaleSet
	// failed are why scopes could not be listed.
	failed map[scope]error
	scopes []scope
}

// of returns a scale set, nil where there is none, or why its scope could not be
// listed.
func (l *setsListing) of(k key) (*scaleSet, error) {
	for _, at := range []scope{"", scope(k.group)} {
		if err := l.failed[at]; err != nil {
			return nil, err
		}
	}
	return l.sets[k], nil
}

// failure returns an error when no scope could be listed.
func (l *setsListing) failure() error {
	if len(l.failed) < len(l.scopes) || len(l.scopes) == 0 {
		return nil
	}
	return l.failed[l.scopes[0]]
}

// listSets lists the scale sets of some scopes.
func (f *Fleet) listSets(ctx context.Context, scopes []scope, wanted map[key]bool) *setsListing {
	l := &setsListing{sets: make(map[key]*scaleSet, len(wanted)), failed: map[scope]error{}, scopes: scopes}
	var mu sync.Mutex
	take := func(from []*armcompute.VirtualMachineScaleSet) {
		mu.Lock()
		defer mu.Unlock()
		for _, each := range from {
			if each == nil || each.ID == nil {
				continue
			}
			if k, ok := keyOfID(*each.ID); !ok || !wanted[k] {
				continue
			}
			if s, ok := scaleSetOf(each); ok {
				l.sets[s.key] = s
			}
		}
	}
	var group errgroup.Group
	group.SetLimit(listing)
	for _, at := range scopes {
		group.Go(func() error {
			var err error
			if at == "" {
				err = pages(ctx, f, opListAllSets, func(c *client) *runtime.Pager[armcompute.VirtualMachineScaleSetsClientListAllResponse] {
					return c.sets.NewListAllPager(nil)
				}, func(page armcompute.VirtualMachineScaleSetsClientListAllResponse) { take(page.Value) })
			} else {
				err = pages(ctx, f, opListSets, func(c *client) *runtime.Pager[armcompute.VirtualMachineScaleSetsClientListResponse] {
					return c.sets.NewListPager(string(at), nil)
				}, func(page armcompute.VirtualMachineScaleSetsClientListResponse) { take(page.Value) })
			}
			if err != nil {
				mu.Lock()
				l.failed[at] = fmt.Errorf("list scale sets of %v: %w", at, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // each scope has its own error
	return l
}

// listMachines lists the machines of a scale set.
func (f *Fleet) listMachines(ctx context.Context, s *scaleSet) ([]*machine, error) {
	var found []*machine
	var err error
	if s.flexible {
		options := &armcompute.VirtualMachinesClientListOptions{
			Filter: new("'virtualMachineScaleSet/id' eq '" + s.id + "'"),
			Expand: new(armcompute.ExpandTypeForListVMsInstanceView),
		}
		err = pages(ctx, f, opListMachines, func(c *client) *runtime.Pager[armcompute.VirtualMachinesClientListResponse] {
			return c.machines.NewListPager(s.group, options)
		}, func(page armcompute.VirtualMachinesClientListResponse) {
			for _, each := range page.Value {
				if m, ok := machineOf(each); ok && belongs(each, s) {
					found = append(found, m)
				}
			}
		})
	} else {
		options := &armcompute.VirtualMachineScaleSetVMsClientListOptions{Expand: new("instanceView")}
		err = pages(ctx, f, opListMembers, func(c *client) *runtime.Pager[armcompute.VirtualMachineScaleSetVMsClientListResponse] {
			return c.members.NewListPager(s.group, s.name, options)
		}, func(page armcompute.VirtualMachineScaleSetVMsClientListResponse) {
			for _, each := range page.Value {
				if m, ok := memberOf(each); ok {
					found = append(found, m)
				}
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list machines of scale set %q: %w", s.key, err)
	}
	return ordered(found), nil
}

// belongs reports whether a machine is of a Flexible set.
func belongs(vm *armcompute.VirtualMachine, s *scaleSet) bool {
	return vm.Properties != nil && vm.Properties.VirtualMachineScaleSet != nil &&
		strings.EqualFold(value(vm.Properties.VirtualMachineScaleSet.ID), s.id)
}

// readSet reads one scale set as it is now.
func (f *Fleet) readSet(ctx context.Context, k key) (*scaleSet, error) {
	var s *scaleSet
	err := f.read(ctx, opGetSet, func(ctx context.Context, c *client) error {
		response, err := c.sets.Get(ctx, k.group, k.set, nil)
		if err != nil {
			return err
		}
		var ok bool
		if s, ok = scaleSetOf(&response.VirtualMachineScaleSet); !ok {
			return fmt.Errorf("the answer names no scale set")
		}
		s.key = k
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read scale set %q: %w", k, err)
	}
	f.applyUnseen(s)
	return s, nil
}
