package swarm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// maxFiltered is the maximum number of targets in the filters of a list call. If there are
// more, all objects are listed.
const maxFiltered = 20

// The reasons for errors.
const (
	serviceNotFound = "ServiceNotFound"
	// globalService means that the service runs once on each node and has no count.
	globalService = "GlobalService"
	// jobService means that the service's tasks run to completion.
	jobService = "JobService"
)

// Snapshot lists the services and tasks. If some tasks may have failed, it also lists the ended
// tasks.
func (f *Fleet) Snapshot(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Reading, error) {
	return f.base.Snapshot(ctx, refs, f.snapshot)
}

func (f *Fleet) snapshot(ctx context.Context, wanted map[targets.Ref]string) (map[targets.Ref]targets.Reading, error) {
	s := &snapshot{fleet: f}
	if err := s.read(ctx, slices.Collect(maps.Values(wanted))); err != nil {
		return nil, err
	}
	readings := make(map[targets.Ref]targets.Reading, len(wanted))
	for ref, name := range wanted {
		reading, err := s.reading(ref, name)
		if err != nil {
			f.sampler.Withdraw(ref)
			reading = targets.Reading{Err: err, Observed: s.observed}
		}
		readings[ref] = reading
	}
	return readings, nil
}

// snapshot is a reading of services that is in progress.
type snapshot struct {
	fleet    *Fleet
	services map[string]*swarm.Service
	// tasks contains the current tasks, and ended the replaced tasks, by the ID of the service.
	tasks, ended map[string][]*swarm.Task
	observed     time.Time
}

func (s *snapshot) read(ctx context.Context, names []string) error {
	if err := s.listServices(ctx, names); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	tasks, err := s.listTasks(ctx, names)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	s.observed = time.Now()
	s.tasks = make(map[string][]*swarm.Task, len(s.services))
	running := map[string]bool{}
	for i := range tasks {
		task := &tasks[i]
		s.tasks[task.ServiceID] = append(s.tasks[task.ServiceID], task)
		if task.NodeID != "" {
			running[task.NodeID] = true
		}
	}
	s.fleet.nodes.update(ctx, running)
	s.listFailed(ctx, names)
	return nil
}

// listServices filters by prefixes of names if there are few targets.
func (s *snapshot) listServices(ctx context.Context, names []string) error {
	var options swarm.ServiceListOptions
	if len(names) <= maxFiltered {
		options.Filters = filters.NewArgs()
		for _, name := range names {
			options.Filters.Add("name", name)
		}
	}
	var services []swarm.Service
	err := s.fleet.read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		services, err = c.ServiceList(ctx, options)
		return err
	})
	s.services = make(map[string]*swarm.Service, len(services))
	for i := range services {
		s.services[services[i].Spec.Name] = &services[i]
	}
	return err
}

// current returns a filter for tasks that have not ended.
func current() filters.Args {
	return filters.NewArgs(
		filters.Arg("desired-state", string(swarm.TaskStateRunning)),
		filters.Arg("desired-state", string(swarm.TaskStateReady)),
		filters.Arg("desired-state", string(swarm.TaskStateRemove)),
	)
}

// listTasks filters by service if there are few targets.
func (s *snapshot) listTasks(ctx context.Context, names []string) ([]swarm.Task, error) {
	narrow := current()
	if len(names) <= maxFiltered {
		named := false
		for _, name := range names {
			if service := s.services[name]; service != nil {
				narrow.Add("service", service.ID)
				named = true
			}
		}
		if !named {
			return nil, nil
		}
	}
	tasks, err := s.fleet.tasks(ctx, narrow)
	if errors.Is(err, targets.ErrTargetNotFound) {
		// With the filter, the whole call fails if one of the services was removed.
		tasks, err = s.fleet.tasks(ctx, current())
	}
	return tasks, err
}

func (f *Fleet) tasks(ctx context.Context, wanted filters.Args) (tasks []swarm.Task, err error) {
	err = f.read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		tasks, err = c.TaskList(ctx, swarm.TaskListOptions{Filters: wanted})
		return err
	})
	return tasks, err
}

func (s *snapshot) reading(ref targets.Ref, name string) (targets.Reading, error) {
	service := s.services[name]
	if service == nil {
		return targets.Reading{}, notFound(name, nil)
	}
	count, err := replicasOf(service)
	if err != nil {
		return targets.Reading{}, err
	}
	reading := targets.Reading{
		SpecReplicas: count, Version: versionOf(service), Observed: s.observed,
		Hold: s.fleet.hold(service, s.tasks[service.ID], s.observed),
	}
	members := membersOf(s.tasks[service.ID], int(count))
	var containers []docker.Container
	var locations targets.LocationList
	for _, m := range members {
		instance := m.instance(service)
		reading.Instances = append(reading.Instances, instance)
		location := s.fleet.nodes.location(service, m.Task)
		location.UnreadyReason = m.unreadyReason()
		locations = append(locations, location)
		if m.living() {
			reading.StatusReplicas++
		}
		if instance.Phase == policy.PhaseRunning && !instance.Deleting {
			containers = append(containers, s.fleet.nodes.container(service, m.Task))
		}
	}
	reading.Locations = locations
	for _, notice := range []*policy.Notice{waiting(service, members), failing(service, s.ended[service.ID], s.observed)} {
		if notice != nil {
			reading.Notices = append(reading.Notices, *notice)
		}
	}
	s.fleet.sampler.Publish(ref, containers)
	return reading, nil
}

// notFound returns an ErrTargetNotFound; cause may be nil.
func notFound(name string, cause error) error {
	err := fmt.Errorf("%w: there is no service %q in the swarm; in a stack, its name begins with the stack's name, for example \"shop_web\"", targets.ErrTargetNotFound, name)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &targets.ReasonError{Reason: serviceNotFound, Err: err}
}

// replicasOf returns a service's count, or an error if it has none.
func replicasOf(service *swarm.Service) (int32, error) {
	mode := service.Spec.Mode
	switch {
	case mode.Replicated != nil && mode.Replicated.Replicas != nil:
		return int32(min(*mode.Replicated.Replicas, math.MaxInt32)), nil
	case mode.Replicated != nil:
		return 1, nil // this is the swarm's default
	case mode.Global != nil:
		return 0, &targets.ReasonError{Reason: globalService, Err: fmt.Errorf("%w: service %q is global: it runs once on each node; only replicated services have a count", targets.ErrUnscalable, service.Spec.Name)}
	}
	return 0, &targets.ReasonError{Reason: jobService, Err: fmt.Errorf("%w: service %q is a job: its tasks run to completion; only replicated services have a count", targets.ErrUnscalable, service.Spec.Name)}
}

// versionOf returns the version of a reading.
func versionOf(service *swarm.Service) string {
	return strconv.FormatUint(service.Version.Index, 10)
}
