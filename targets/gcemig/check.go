package gcemig

import (
	"context"
	"fmt"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// Check returns the permissions of the account for the groups that were read, and the
// effects of missing optional ones. The error has the missing ones. Nothing is changed:
// the permission to change a group is tried with a change of nothing, for a version of the
// group that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.Ask(ctx, &f.Base, "check", func(ctx context.Context) ([]string, error) {
		s, err := f.open(ctx)
		if err != nil {
			return nil, err
		}
		found, err := f.Fleet.Check(ctx, []string{fmt.Sprintf("uses project %q", f.config.Project)}, func(map[Target]*cloud.Group[*compute.InstanceGroupManager]) []cloud.Try[Target] {
			return f.tries(s)
		})
		return append(found, f.Problems()...), err
	})
}

func (f *Fleet) tries(s *session) []cloud.Try[Target] {
	return []cloud.Try[Target]{
		{Permission: "compute.instanceGroupManagers.list", All: func(ctx context.Context) error {
			_, err := s.list(ctx)
			return err
		}},
		{Permission: "compute.instanceGroupManagers.get", Each: func(ctx context.Context, t Target) error {
			_, err := s.members(ctx, &t)
			return err
		}},
		{Permission: "compute.instanceGroupManagers.update", Each: func(ctx context.Context, t Target) error { return s.touch(ctx, &t) }},
		{
			Permission: "compute.instances.list", Without: "instances count as started when they are first seen, and have no addresses and labels",
			All: func(ctx context.Context) error {
				_, err := s.allMachines(ctx, nil)
				return err
			},
		},
		{
			Permission: "compute.autoscalers.list", Without: "groups that have an autoscaler of Compute Engine's are held, also when it is off",
			All: func(ctx context.Context) error {
				_, err := s.autoscalers(ctx)
				return err
			},
		},
	}
}
