package azurevmss

import (
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

// setsListing is what the lists of scale sets say.
type setsListing struct {
	sets map[key]*scaleSet
	// failed are why scopes could not be listed.
	failed map[scope]error
	scopes []scope
}

// of returns a scale set for the skeleton.
func (l *setsListing) of(k key) *platform.Group[*scaleSet] {
	for _, at := range []scope{"", scope(k.group)} {
		if err := l.failed[at]; err != nil {
			return &platform.Group[*scaleSet]{Err: err}
		}
	}
	if s := l.sets[k]; s != nil {
		return groupOf(s)
	}
	return &platform.Group[*scaleSet]{Err: platform.NotFound(ScaleSetNotFound, "scale set that may be read", k)}
}

// failure returns an error when no scope could be listed.
func (l *setsListing) failure() error {
	if len(l.failed) < len(l.scopes) || len(l.scopes) == 0 {
		return nil
	}
	return l.failed[l.scopes[0]]
}

// listSets lists the scale sets of some scopes.
func (f *Fleet) listSets(ctx context.Context, scopes []scope, wanted []key) *setsListing {
	l := &setsListing{sets: make(map[key]*scaleSet, len(wanted)), failed: map[scope]error{}, scopes: scopes}
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
					l.sets[s.key] = s
				}
			})
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
