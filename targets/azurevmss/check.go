package azurevmss

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
	platform "github.com/hpad/hpad/targets/cloud"
)

const (
	actionReadSet  = "Microsoft.Compute/virtualMachineScaleSets/read"
	actionWriteSet = "Microsoft.Compute/virtualMachineScaleSets/write"
)

// actions are the actions that hpad uses on a set.
var actions = []struct {
	name string
	// without is the effect of a missing optional action; empty if it is required.
	without string
	// needed reports whether hpad uses it; nil means always.
	needed func(c *Config, s *scaleSet) bool
}{
	{actionReadSet, "", nil},
	{actionWriteSet, "", nil},
	{"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read", "", uniform},
	{"Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read", "", uniform},
	{"Microsoft.Compute/virtualMachines/read", "", flexible},
	{"Microsoft.Compute/virtualMachines/instanceView/read", "", flexible},
	{"Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read", "", func(_ *Config, s *scaleSet) bool { return s.upgrading }},
	{"Microsoft.Compute/virtualMachineScaleSets/delete/action", "it cannot choose victims", nil},
	{"Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read", "addresses are not known", func(c *Config, s *scaleSet) bool { return c.Addresses != AddressesNone && !s.flexible }},
	{"Microsoft.Network/networkInterfaces/read", "addresses are not known", func(c *Config, s *scaleSet) bool { return c.Addresses != AddressesNone && s.flexible }},
}

func uniform(_ *Config, s *scaleSet) bool  { return !s.flexible }
func flexible(_ *Config, s *scaleSet) bool { return s.flexible }

// permission is what Azure says of a caller's rights to a resource.
type permission struct {
	Actions    []string `json:"actions"`
	NotActions []string `json:"notActions"`
}

// allows reports whether an action is permitted.
func allows(permissions []permission, action string) bool {
	return slices.ContainsFunc(permissions, func(p permission) bool {
		matches := func(pattern string) bool { return matchAction(pattern, action) }
		return slices.ContainsFunc(p.Actions, matches) && !slices.ContainsFunc(p.NotActions, matches)
	})
}

// matchAction reports whether a pattern, in which * stands for anything, covers an
// action.
func matchAction(pattern, action string) bool {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	matched, err := regexp.MatchString("(?i)^"+strings.Join(parts, ".*")+"$", action)
	return err == nil && matched
}

// Check returns the permissions of hpad for the scale sets that were read, by Azure's role
// assignments. The error has the missing ones, and the sets. Nothing is changed.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.Base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	groups, err := f.List(ctx, f.Known())
	if err != nil {
		return nil, err
	}
	found := []string{fmt.Sprintf("uses subscription %s", f.config.Subscription)}
	permissions := map[key][]permission{}
	var unread []error
	for _, k := range slices.SortedFunc(maps.Keys(groups), key.compare) {
		if groups[k].Err != nil {
			unread = append(unread, groups[k].Err)
			continue
		}
		path := groups[k].Native.ID + "/providers/Microsoft.Authorization/permissions"
		err := list(ctx, f, opPermissions, path, permissionsVersion, func(p *permission) { permissions[k] = append(permissions[k], *p) })
		if errors.Is(err, targets.ErrForbidden) {
			found = append(found, fmt.Sprintf("permissions for scale set %q are not known without Microsoft.Authorization/permissions/read", k))
			permissions[k] = []permission{{Actions: []string{"*"}}}
		} else if err != nil {
			unread = append(unread, fmt.Errorf("read the permissions for scale set %q: %w", k, err))
		}
	}
	if len(unread) > 0 {
		return found, errors.Join(unread...)
	}
	var tries []platform.Try[key]
	for _, action := range actions {
		tries = append(tries, platform.Try[key]{Permission: action.name, Without: action.without, Each: func(_ context.Context, k key) error {
			needed := action.needed == nil || action.needed(f.config, groups[k].Native)
			if needed && !allows(permissions[k], action.name) {
				return fmt.Errorf("%w: it is in no role", targets.ErrForbidden)
			}
			return nil
		}})
	}
	found, err = f.Fleet.Check(ctx, found, tries)
	return append(found, f.Problems()...), err
}
