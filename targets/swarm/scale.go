package swarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// outOfSequence is part of the engine's error for an outdated version, which has status 500.
const outOfSequence = "update out of sequence"

// SetReplicas scales a service if it has not changed since version. It does not write an unchanged
// count, because every write replaces the version that a rollback returns to. The reason is
// ignored, because Swarm does not record it.
func (f *Fleet) SetReplicas(ctx context.Context, ref targets.Ref, n int32, version, _ string) error {
	return f.base.Scale(ctx, ref, n, "service", func(ctx context.Context, name string) error {
		return f.setReplicas(ctx, name, n, version)
	})
}

func (f *Fleet) setReplicas(ctx context.Context, name string, n int32, version string) error {
	service, document, err := f.inspect(ctx, name)
	if err != nil {
		return err
	}
	current, err := replicasOf(service)
	if err != nil {
		return err
	}
	if version != "" && version != versionOf(service) {
		return fmt.Errorf("%w: service %q changed from version %s to %s", targets.ErrConflict, name, version, versionOf(service))
	}
	if current == n {
		return nil
	}
	if err := f.checkHold(ctx, service); err != nil {
		return err
	}
	spec, err := withReplicas(document, n)
	if err != nil {
		return fmt.Errorf("%w: service %q: %w", targets.ErrTransient, name, err)
	}
	return f.update(ctx, service, spec)
}

// checkHold returns a HeldError during an update of a service.
func (f *Fleet) checkHold(ctx context.Context, service *swarm.Service) error {
	tasks, err := f.tasksOfFresh(ctx, service)
	if err != nil {
		return err
	}
	if hold := f.hold(service, tasks, time.Now()); hold != nil {
		return &targets.HeldError{Hold: *hold}
	}
	return nil
}

// tasksOfFresh lists the tasks of a service that has changed recently. It returns nil for other
// services.
func (f *Fleet) tasksOfFresh(ctx context.Context, service *swarm.Service) ([]*swarm.Task, error) {
	if !fresh(service, time.Now()) {
		return nil, nil
	}
	wanted := current()
	wanted.Add("service", service.ID)
	list, err := f.tasks(ctx, wanted)
	switch {
	case errors.Is(err, targets.ErrTargetNotFound):
		return nil, notFound(service.Spec.Name, err)
	case err != nil:
		return nil, fmt.Errorf("read its tasks: %w", err)
	}
	tasks := make([]*swarm.Task, len(list))
	for i := range list {
		tasks[i] = &list[i]
	}
	return tasks, nil
}

// inspect reads one service, both decoded and as raw JSON.
func (f *Fleet) inspect(ctx context.Context, name string) (*swarm.Service, []byte, error) {
	var service swarm.Service
	var document []byte
	err := f.read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		service, document, err = c.ServiceInspectWithRaw(ctx, name, swarm.ServiceInspectOptions{})
		return err
	})
	switch {
	case errors.Is(err, targets.ErrTargetNotFound):
		return nil, nil, notFound(name, err)
	case err != nil:
		return nil, nil, fmt.Errorf("read it: %w", err)
	case service.Spec.Name != name:
		return nil, nil, notFound(name, nil) // the engine also accepts a prefix of an ID
	}
	return &service, document, nil
}

// update sends a new specification of a service for its version. The registry credentials
// remain unchanged.
func (f *Fleet) update(ctx context.Context, service *swarm.Service, spec []byte) error {
	options := swarm.ServiceUpdateOptions{RegistryAuthFrom: swarm.RegistryAuthFromSpec}
	err := f.engine.Write(docker.WithBody(ctx, spec), func(ctx context.Context, c *client.Client) error {
		_, err := c.ServiceUpdate(ctx, service.ID, service.Version, service.Spec, options)
		if err != nil && strings.Contains(err.Error(), outOfSequence) {
			return fmt.Errorf("%w: %w", targets.ErrConflict, err)
		}
		return err
	})
	if errors.Is(err, targets.ErrTargetNotFound) {
		return notFound(service.Spec.Name, err)
	}
	return managerError(err)
}

// Restart makes Swarm replace all tasks of a service according to its update configuration, as
// "docker service update --force" does. During an update it returns a HeldError, because a write would
// resume a paused update, or replace the version that a rollback returns to.
func (f *Fleet) Restart(ctx context.Context, ref targets.Ref) error {
	return f.base.Write(ctx, ref, "restart service "+ref.Name+" of fleet "+f.base.Name, func(ctx context.Context, name string) error {
		service, document, err := f.inspect(ctx, name)
		if err != nil {
			return err
		}
		if err := f.checkHold(ctx, service); err != nil {
			return err
		}
		spec, err := withValue(document, service.Spec.TaskTemplate.ForceUpdate+1, "TaskTemplate", "ForceUpdate")
		if err != nil {
			return fmt.Errorf("%w: service %q: %w", targets.ErrTransient, name, err)
		}
		return f.update(ctx, service, spec)
	})
}

// withReplicas returns the specification in a raw service with a different count. It keeps
// unknown fields.
func withReplicas(document []byte, n int32) ([]byte, error) {
	return withValue(document, uint64(n), "Mode", "Replicated", "Replicas")
}

// withValue returns the specification in a raw service with a different value at a path of keys. It
// keeps unknown fields.
func withValue(document []byte, n uint64, path ...string) ([]byte, error) {
	var service struct{ Spec json.RawMessage }
	if err := json.Unmarshal(document, &service); err != nil {
		return nil, err
	}
	value, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	return replace(service.Spec, value, path...)
}

// replace returns an object in which the value at a path of keys is replaced.
func replace(object, value json.RawMessage, path ...string) (json.RawMessage, error) {
	if len(path) == 0 {
		return value, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, fmt.Errorf("the specification contains no object with %q: %w", path[0], err)
	}
	inner, ok := members[path[0]]
	if !ok && len(path) > 1 {
		return nil, fmt.Errorf("the specification contains no %q", path[0])
	}
	inner, err := replace(inner, value, path[1:]...)
	if err != nil {
		return nil, err
	}
	members[path[0]] = inner
	return json.Marshal(members)
}
