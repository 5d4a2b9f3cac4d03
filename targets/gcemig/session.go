package gcemig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
)

// pageSize is the most that a list answers at once.
const pageSize = 500

// How a call is made again after a passing trouble: so often at most, after a pause
// that doubles.
const (
	attempts   = 3
	firstPause = 200 * time.Millisecond
)

// session makes calls with the client of one round, all of them through the
// fleet's limiter.
type session struct {
	client     *client
	connection *connection
	config     *Config
	limiter    *cloud.Limiter
}

// read makes a call that changes nothing, again if it may help, and puts its error
// into a class.
func (s *session) read(ctx context.Context, operation string, call func(ctx context.Context) error) error {
	return s.do(ctx, cloud.Call{Operation: operation, Class: cloud.Read}, readError, call)
}

// write makes a call that is the same one when it is made again, by its request id.
func (s *session) write(ctx context.Context, operation string, call func(ctx context.Context) error) error {
	return s.do(ctx, cloud.Call{Operation: operation, Class: cloud.Write}, writeError, call)
}

func (s *session) do(ctx context.Context, c cloud.Call, classify func(error) error, call func(ctx context.Context) error) error {
	var err error
	for attempt, pause := 1, firstPause; ; attempt, pause = attempt+1, 2*pause {
		again := false
		err = s.limiter.Do(ctx, c, func(ctx context.Context) error {
			err := s.bounded(ctx, call)
			again = err != nil && passing(err)
			return classify(err)
		})
		if !again || attempt == attempts || ctx.Err() != nil {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	answer, answered := errors.AsType[*answerError](err)
	token, asked := errors.AsType[*tokenError](err)
	if answered && answer.status == http.StatusUnauthorized || asked && token.status == http.StatusUnauthorized {
		s.connection.forget(s.client)
	}
	return err
}

// bounded makes a call within the fleet's timeout, which is no deadline of the
// caller.
func (s *session) bounded(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, errTimeout)
	defer cancel()
	err := call(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("%w of %v", errTimeout, s.config.Timeout)
	}
	return err
}

// group reads one group.
func (s *session) group(ctx context.Context, t *Target) (*compute.InstanceGroupManager, error) {
	var found *compute.InstanceGroupManager
	err := s.read(ctx, t.operation("get"), func(ctx context.Context) (err error) {
		if t.regional() {
			found, err = s.client.service.RegionInstanceGroupManagers.Get(s.config.Project, t.Region, t.Group).Context(ctx).Do()
		} else {
			found, err = s.client.service.InstanceGroupManagers.Get(s.config.Project, t.Zone, t.Group).Context(ctx).Do()
		}
		return err
	})
	if errors.Is(err, targets.ErrTargetNotFound) {
		err = reasoned(GroupNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("get %v: %w", t, err)
	}
	return found, nil
}

// operation names an operation on a group as the platform does.
func (t *Target) operation(verb string) string {
	if t.regional() {
		return "regionInstanceGroupManagers." + verb
	}
	return "instanceGroupManagers." + verb
}

// members lists the instances of a group.
func (s *session) members(ctx context.Context, t *Target) ([]*compute.ManagedInstance, error) {
	var members []*compute.ManagedInstance
	for token := ""; ; {
		var page []*compute.ManagedInstance
		next := ""
		err := s.read(ctx, t.operation("listManagedInstances"), func(ctx context.Context) error {
			if t.regional() {
				answer, err := s.client.service.RegionInstanceGroupManagers.ListManagedInstances(s.config.Project, t.Region, t.Group).
					MaxResults(pageSize).PageToken(token).Context(ctx).Do()
				if err == nil {
					page, next = answer.ManagedInstances, answer.NextPageToken
				}
				return err
			}
			answer, err := s.client.service.InstanceGroupManagers.ListManagedInstances(s.config.Project, t.Zone, t.Group).
				MaxResults(pageSize).PageToken(token).Context(ctx).Do()
			if err == nil {
				page, next = answer.ManagedInstances, answer.NextPageToken
			}
			return err
		})
		if errors.Is(err, targets.ErrTargetNotFound) {
			err = reasoned(GroupNotFound, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list instances of %v: %w", t, err)
		}
		members = append(members, page...)
		if next == "" || next == token {
			return members, nil
		}
		token = next
	}
}

// failures lists what went wrong in a group lately, in no order.
func (s *session) failures(ctx context.Context, t *Target) ([]*compute.InstanceManagedByIgmError, error) {
	var found []*compute.InstanceManagedByIgmError
	err := s.read(ctx, t.operation("listErrors"), func(ctx context.Context) error {
		if t.regional() {
			answer, err := s.client.service.RegionInstanceGroupManagers.ListErrors(s.config.Project, t.Region, t.Group).
				MaxResults(pageSize).Context(ctx).Do()
			if err == nil {
				found = answer.Items
			}
			return err
		}
		answer, err := s.client.service.InstanceGroupManagers.ListErrors(s.config.Project, t.Zone, t.Group).
			MaxResults(pageSize).Context(ctx).Do()
		if err == nil {
			found = answer.Items
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list errors of %v: %w", t, err)
	}
	return found, nil
}

// resize asks for a new size.
func (s *session) resize(ctx context.Context, t *Target, size int32, request string) (*compute.Operation, error) {
	var started *compute.Operation
	err := s.write(ctx, t.operation("resize"), func(ctx context.Context) (err error) {
		if t.regional() {
			started, err = s.client.service.RegionInstanceGroupManagers.Resize(s.config.Project, t.Region, t.Group, int64(size)).
				RequestId(request).Context(ctx).Do()
		} else {
			started, err = s.client.service.InstanceGroupManagers.Resize(s.config.Project, t.Zone, t.Group, int64(size)).
				RequestId(request).Context(ctx).Do()
		}
		return err
	})
	return started, err
}

// remove asks for instances to be deleted, which lowers the group's size. Those
// that cannot be deleted any more are passed over.
func (s *session) remove(ctx context.Context, t *Target, urls []string, request string) (*compute.Operation, error) {
	var started *compute.Operation
	err := s.write(ctx, t.operation("deleteInstances"), func(ctx context.Context) (err error) {
		if t.regional() {
			started, err = s.client.service.RegionInstanceGroupManagers.DeleteInstances(s.config.Project, t.Region, t.Group,
				&compute.RegionInstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}).
				RequestId(request).Context(ctx).Do()
		} else {
			started, err = s.client.service.InstanceGroupManagers.DeleteInstances(s.config.Project, t.Zone, t.Group,
				&compute.InstanceGroupManagersDeleteInstancesRequest{Instances: urls, SkipInstancesOnValidationError: true}).
				RequestId(request).Context(ctx).Do()
		}
		return err
	})
	return started, err
}

// touch asks for a change of nothing that no version of the group allows. Its error
// tells whether the right to change the group is there.
func (s *session) touch(ctx context.Context, t *Target) error {
	return s.write(ctx, t.operation("patch"), func(ctx context.Context) (err error) {
		nothing := &compute.InstanceGroupManager{Fingerprint: "AAAAAAAAAAA="}
		if t.regional() {
			_, err = s.client.service.RegionInstanceGroupManagers.Patch(s.config.Project, t.Region, t.Group, nothing).Context(ctx).Do()
		} else {
			_, err = s.client.service.InstanceGroupManagers.Patch(s.config.Project, t.Zone, t.Group, nothing).Context(ctx).Do()
		}
		return err
	})
}

// follow reads how an operation on a group is doing.
func (s *session) follow(ctx context.Context, t *Target, name string) (*compute.Operation, error) {
	var found *compute.Operation
	operation := "zoneOperations.get"
	if t.regional() {
		operation = "regionOperations.get"
	}
	err := s.read(ctx, operation, func(ctx context.Context) (err error) {
		if t.regional() {
			found, err = s.client.service.RegionOperations.Get(s.config.Project, t.Region, name).Context(ctx).Do()
		} else {
			found, err = s.client.service.ZoneOperations.Get(s.config.Project, t.Zone, name).Context(ctx).Do()
		}
		return err
	})
	return found, err
}
