package azurevmss

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hpad/hpad/targets"
)

// The actions that hpad is permitted, or not.
const (
	actionReadSet          = "Microsoft.Compute/virtualMachineScaleSets/read"
	actionWriteSet         = "Microsoft.Compute/virtualMachineScaleSets/write"
	actionReadMembers      = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read"
	actionReadMemberView   = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/instanceView/read"
	actionReadMachines     = "Microsoft.Compute/virtualMachines/read"
	actionReadMachineView  = "Microsoft.Compute/virtualMachines/instanceView/read"
	actionReadUpgrades     = "Microsoft.Compute/virtualMachineScaleSets/rollingUpgrades/read"
	actionDeleteMembers    = "Microsoft.Compute/virtualMachineScaleSets/delete/action"
	actionMemberInterfaces = "Microsoft.Compute/virtualMachineScaleSets/networkInterfaces/read"
	actionInterfaces       = "Microsoft.Network/networkInterfaces/read"
)

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

// needs returns the actions that scaling a set takes, and those that more takes
// than that.
func (f *Fleet) needs(s *scaleSet) (required, optional []string) {
	required = []string{actionReadSet, actionWriteSet, actionReadMembers, actionReadMemberView}
	optional = []string{actionDeleteMembers}
	addresses := actionMemberInterfaces
	if s.flexible {
		required = []string{actionReadSet, actionWriteSet, actionReadMachines, actionReadMachineView}
		addresses = actionInterfaces
	}
	if s.upgrading {
		required = append(required, actionReadUpgrades)
	}
	if f.config.Addresses != AddressesNone {
		optional = append(optional, addresses)
	}
	return required, optional
}

// Check returns what hpad may do to the scale sets that were read, by Azure's role
// assignments. The error names what is missing, for each scale set. Nothing is changed.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	known := f.base.Known()
	slices.SortFunc(known, key.compare)
	wanted := map[key]bool{}
	for _, k := range known {
		wanted[k] = true
	}
	listed := f.listSets(ctx, f.config.scopes(wanted), wanted)
	if err := listed.failure(); err != nil {
		return nil, err
	}
	found := []string{fmt.Sprintf("lists %d of %d scale sets of subscription %s", len(listed.sets), len(known), f.config.Subscription)}
	var missing []error
	for _, k := range known {
		s, err := listed.of(k)
		if err == nil && s == nil {
			err = fmt.Errorf("%w: there is no scale set %q, or none that may be read (%s)", targets.ErrTargetNotFound, k, actionReadSet)
		}
		if err == nil {
			err = f.checkSet(ctx, s, &found)
		}
		if err != nil {
			missing = append(missing, err)
		}
	}
	return append(found, f.Problems()...), errors.Join(missing...)
}

// checkSet finds what hpad may do to one scale set.
func (f *Fleet) checkSet(ctx context.Context, s *scaleSet, found *[]string) error {
	if err := s.unscalable(); err != nil {
		return err
	}
	if _, err := f.listMachines(ctx, s); err != nil {
		return err
	}
	var permissions []permission
	path := s.id + "/providers/Microsoft.Authorization/permissions"
	if err := list(ctx, f, opPermissions, path, permissionsVersion, func(p permission) { permissions = append(permissions, p) }); err != nil {
		if !errors.Is(err, targets.ErrForbidden) {
			return fmt.Errorf("read the permissions for scale set %q: %w", s.key, err)
		}
		*found = append(*found, fmt.Sprintf("may read scale set %q; whether it may change it cannot be told without Microsoft.Authorization/permissions/read", s.key))
		return nil
	}
	required, optional := f.needs(s)
	lacks := func(actions []string) []string {
		return slices.DeleteFunc(slices.Clone(actions), func(action string) bool { return allows(permissions, action) })
	}
	if lack := lacks(required); len(lack) > 0 {
		return fmt.Errorf("%w: scale set %q: hpad lacks %s", targets.ErrForbidden, s.key, strings.Join(lack, ", "))
	}
	text := fmt.Sprintf("may read and change scale set %q", s.key)
	if lack := lacks(optional); len(lack) > 0 {
		text += "; it lacks " + strings.Join(lack, ", ")
	}
	*found = append(*found, text)
	return nil
}
