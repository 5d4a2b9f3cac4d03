package gcemig

import (
	"context"
	"fmt"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
)

// pageSize is the maximum page size of lists.
const pageSize = 500

// either makes the zonal or the regional call for a target's group.
func either[R any](t *Target, zonal, regional func(...googleapi.CallOption) (R, error)) (R, error) {
	if t.Region != "" {
		return regional()
	}
	return zonal()
}

// operation returns the platform's name of a call for a group.
func (t *Target) operation(verb string) string {
	if t.Region != "" {
		return "regionInstanceGroupManagers." + verb
	}
	return "instanceGroupManagers." + verb
}

func (s *session) group(ctx context.Context, t *Target) (*compute.InstanceGroupManager, error) {
	ctx = reading(ctx, t.operation("get"))
	found, err := either(t,
		s.service.InstanceGroupManagers.Get(s.project, t.Zone, t.Group).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.Get(s.project, t.Region, t.Group).Context(ctx).Do)
	if err != nil {
		return nil, fmt.Errorf("get group %v: %w", t, sent(err))
	}
	return found, nil
}

func (s *session) members(ctx context.Context, t *Target) ([]*compute.ManagedInstance, error) {
	ctx = reading(ctx, t.operation("listManagedInstances"))
	var found []*compute.ManagedInstance
	var err error
	if t.Region != "" {
		err = s.service.RegionInstanceGroupManagers.ListManagedInstances(s.project, t.Region, t.Group).MaxResults(pageSize).
			Pages(ctx, func(page *compute.RegionInstanceGroupManagersListInstancesResponse) error {
				found = append(found, page.ManagedInstances...)
				return nil
			})
	} else {
		err = s.service.InstanceGroupManagers.ListManagedInstances(s.project, t.Zone, t.Group).MaxResults(pageSize).
			Pages(ctx, func(page *compute.InstanceGroupManagersListManagedInstancesResponse) error {
				found = append(found, page.ManagedInstances...)
				return nil
			})
	}
	if err != nil {
		return nil, fmt.Errorf("list instances of group %v: %w", t, sent(err))
	}
	return found, nil
}

func (s *session) resize(ctx context.Context, t *Target, size int32) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("resize"))
	started, err := either(t,
		s.service.InstanceGroupManagers.Resize(s.project, t.Zone, t.Group, int64(size)).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.Resize(s.project, t.Region, t.Group, int64(size)).Context(ctx).Do)
	return started, sent(err)
}

// remove deletes instances, which lowers the group's size. It skips instances that cannot be
// deleted.
func (s *session) remove(ctx context.Context, t *Target, urls []string) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("deleteInstances"))
	zonal := &compute.InstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	regional := &compute.RegionInstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	started, err := either(t,
		s.service.InstanceGroupManagers.DeleteInstances(s.project, t.Zone, t.Group, zonal).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.DeleteInstances(s.project, t.Region, t.Group, regional).Context(ctx).Do)
	return started, sent(err)
}

// touch tries an empty change with a version that the group never has; the error reveals a
// missing permission.
func (s *session) touch(ctx context.Context, t *Target) error {
	ctx = writing(ctx, t.operation("patch"))
	nothing := &compute.InstanceGroupManager{Fingerprint: "AAAAAAAAAAA="}
	_, err := either(t,
		s.service.InstanceGroupManagers.Patch(s.project, t.Zone, t.Group, nothing).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.Patch(s.project, t.Region, t.Group, nothing).Context(ctx).Do)
	return sent(err)
}

func (s *session) follow(ctx context.Context, t *Target, name string) (*compute.Operation, error) {
	found, err := either(t,
		s.service.ZoneOperations.Get(s.project, t.Zone, name).Context(reading(ctx, "zoneOperations.get")).Do,
		s.service.RegionOperations.Get(s.project, t.Region, name).Context(reading(ctx, "regionOperations.get")).Do)
	return found, sent(err)
}
