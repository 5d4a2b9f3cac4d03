package gcemig

import (
	"context"
	"fmt"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
)

// pageSize is the most that a list returns at once.
const pageSize = 500

// either makes the call for a target's group that is for zonal groups, or the one for
// regional groups.
func either[R any](t *Target, zonal, regional func(...googleapi.CallOption) (R, error)) (R, error) {
	if t.Region != "" {
		return regional()
	}
	return zonal()
}

// operation returns the platform's name of an operation on a group.
func (t *Target) operation(verb string) string {
	if t.Region != "" {
		return "regionInstanceGroupManagers." + verb
	}
	return "instanceGroupManagers." + verb
}

// group reads one group.
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

// members lists the instances of a group.
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

// resize sets the size of a group.
func (s *session) resize(ctx context.Context, t *Target, size int32) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("resize"))
	started, err := either(t,
		s.service.InstanceGroupManagers.Resize(s.project, t.Zone, t.Group, int64(size)).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.Resize(s.project, t.Region, t.Group, int64(size)).Context(ctx).Do)
	return started, sent(err)
}

// remove deletes instances, which lowers the group's size. Those that cannot be
// deleted any more are passed over.
func (s *session) remove(ctx context.Context, t *Target, urls []string) (*compute.Operation, error) {
	ctx = writing(ctx, t.operation("deleteInstances"))
	zonal := &compute.InstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	regional := &compute.RegionInstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}
	started, err := either(t,
		s.service.InstanceGroupManagers.DeleteInstances(s.project, t.Zone, t.Group, zonal).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.DeleteInstances(s.project, t.Region, t.Group, regional).Context(ctx).Do)
	return started, sent(err)
}

// touch changes nothing, at a version that the group never has: the error shows whether
// the right to change the group is there.
func (s *session) touch(ctx context.Context, t *Target) error {
	ctx = writing(ctx, t.operation("patch"))
	nothing := &compute.InstanceGroupManager{Fingerprint: "AAAAAAAAAAA="}
	_, err := either(t,
		s.service.InstanceGroupManagers.Patch(s.project, t.Zone, t.Group, nothing).Context(ctx).Do,
		s.service.RegionInstanceGroupManagers.Patch(s.project, t.Region, t.Group, nothing).Context(ctx).Do)
	return sent(err)
}

// follow reads an operation on a group.
func (s *session) follow(ctx context.Context, t *Target, name string) (*compute.Operation, error) {
	found, err := either(t,
		s.service.ZoneOperations.Get(s.project, t.Zone, name).Context(reading(ctx, "zoneOperations.get")).Do,
		s.service.RegionOperations.Get(s.project, t.Region, name).Context(reading(ctx, "regionOperations.get")).Do)
	return found, sent(err)
}
