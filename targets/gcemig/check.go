package gcemig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hpad/hpad/targets"
)

// What the account of the fleet needs; the optional ones, and what for.
const (
	listPermission        = "compute.instanceGroupManagers.list"
	getPermission         = "compute.instanceGroupManagers.get"
	updatePermission      = "compute.instanceGroupManagers.update"
	machinesPermission    = "compute.instances.list"
	machinePermission     = "compute.instances.get"
	autoscalersPermission = "compute.autoscalers.list"
)

// Check returns which permissions the account has on every group that was read, and
// what lacking optional ones means. The error names those that are missing. Nothing
// is changed: the right to change a group is tried with a change of nothing, for a
// version of the group that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	session, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	listing, err := session.list(ctx)
	if errors.Is(err, targets.ErrForbidden) {
		err = fmt.Errorf("the account lacks %s in project %q: %w", listPermission, f.config.Project, err)
	}
	if err != nil {
		return nil, err
	}
	found := []string{fmt.Sprintf("may list the managed instance groups of project %q: there are %d", f.config.Project, len(listing.groups))}
	known := f.base.Known()
	missing := make([]error, len(known))
	var group errgroup.Group
	group.SetLimit(f.config.MaxConnections)
	for i, t := range known {
		group.Go(func() error {
			missing[i] = checkGroup(ctx, session, listing, &t)
			return nil
		})
	}
	_ = group.Wait() // each group has its own error
	missing = slices.DeleteFunc(missing, func(err error) bool { return err == nil })
	if changeable := len(known) - len(missing); changeable > 0 {
		found = append(found, fmt.Sprintf("may read and resize %d of %d groups", changeable, len(known)))
	}
	return append(found, f.checkOptional(ctx, session)...), errors.Join(missing...)
}

// checkGroup returns what is missing for one group; nil when nothing is.
func checkGroup(ctx context.Context, s *session, l *listing, t *Target) error {
	if _, err := l.find(t); err != nil {
		return err
	}
	var lack []string
	if _, err := s.members(ctx, t); errors.Is(err, targets.ErrForbidden) {
		lack = append(lack, getPermission)
	} else if err != nil {
		return err
	}
	// Whatever else is wrong with the change comes after the question whether it is
	// allowed.
	err := s.touch(ctx, t)
	switch {
	case errors.Is(err, targets.ErrForbidden):
		lack = append(lack, updatePermission)
	case errors.Is(err, targets.ErrThrottled), errors.Is(err, targets.ErrUnknownOutcome):
		return fmt.Errorf("try to change %v: %w", t, err)
	}
	if len(lack) > 0 {
		return fmt.Errorf("%w: the account lacks %s on %v", targets.ErrForbidden, strings.Join(lack, ", "), t)
	}
	return nil
}

// checkOptional says what the account may not do that hpad can do without.
func (f *Fleet) checkOptional(ctx context.Context, s *session) []string {
	var found []string
	if _, err := (&machines{}).all(ctx, s, nil); errors.Is(err, targets.ErrForbidden) {
		found = append(found, fmt.Sprintf("the account lacks %s or %s, so instances count as started when they are first seen, and have no addresses and labels", machinesPermission, machinePermission))
	}
	if _, err := s.autoscalers(ctx); errors.Is(err, targets.ErrForbidden) {
		found = append(found, fmt.Sprintf("the account lacks %s, so groups that have an autoscaler of Compute Engine's are held, also when it is off", autoscalersPermission))
	}
	if err := f.machines.problem(time.Now()); err != nil && len(found) == 0 {
		found = append(found, "machines cannot be looked up: "+err.Error())
	}
	if err := f.memory.Failure(); err != nil {
		found = append(found, "start times and readiness cannot be stored: "+err.Error())
	}
	return found
}
