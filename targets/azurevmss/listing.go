package azurevmss

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	platform "github.com/hpad/hpad/targets/cloud"
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
func (c *Config) scopes(wanted []key) []scope {
	groups := map[scope]bool{}
	for _, k := range wanted {
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

// listSets lists the scale sets of some scopes. An error means that no scope could be
// listed.
func (f *Fleet) listSets(ctx context.Context, scopes []scope, wanted []key) (map[key]*platform.Group[*scaleSet], error) {
	sets, failed := map[key]*scaleSet{}, map[scope]error{}
	want := make(map[key]bool, len(wanted))
	for _, k := range wanted {
		want[k] = true
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(listing)
	for _, at := range scopes {
		group.Go(func() error {
			operation := opListSets
			if at == "" {
				operation = opListAllSets
			}
			err := list(ctx, f, operation, at.path(f.config.Subscription)+"/providers/Microsoft.Compute/virtualMachineScaleSets", computeVersion, func(s *scaleSet) {
				if s.complete() && want[s.key] {
					mu.Lock()
					defer mu.Unlock()
					sets[s.key] = s
				}
			})
			if err != nil {
				mu.Lock()
				failed[at] = fmt.Errorf("list scale sets of %v: %w", at, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // each scope has its own error
	if len(scopes) > 0 && len(failed) == len(scopes) {
		return nil, failed[scopes[0]]
	}
	groups := make(map[key]*platform.Group[*scaleSet], len(wanted))
	for _, k := range wanted {
		switch err := cmp.Or(failed[""], failed[scope(k.group)]); {
		case err != nil:
			groups[k] = &platform.Group[*scaleSet]{Err: err}
		case sets[k] != nil:
			groups[k] = groupOf(sets[k])
		default:
			groups[k] = &platform.Group[*scaleSet]{Err: platform.NotFound(ScaleSetNotFound, "scale set that may be read", k)}
		}
	}
	return groups, nil
}

// listMachines lists the machines of a scale set.
func (f *Fleet) listMachines(ctx context.Context, s *scaleSet) ([]*machine, error) {
	operation, path := opListMembers, s.path(f.config)+"/virtualMachines?$expand=instanceView"
	if s.flexible {
		query := url.Values{"$filter": {"'virtualMachineScaleSet/id' eq '" + s.ID + "'"}, "$expand": {"instanceView"}}
		operation, path = opListMachines, scope(s.group).path(f.config.Subscription)+"/providers/Microsoft.Compute/virtualMachines?"+query.Encode()
	}
	var found []*machine
	err := list(ctx, f, operation, path, computeVersion, func(m *machine) {
		if m.complete(s.flexible) && (!s.flexible || strings.EqualFold(m.Properties.Set.ID, s.ID)) {
			found = append(found, m)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list machines of scale set %q: %w", s.key, err)
	}
	return found, nil
}
