package swarm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
)

// Check returns the engine's version, information about the swarm, and the nodes whose CPU and
// memory usage cannot be sampled. It tests the permission to update by calling it for a service
// that does not exist.
func (f *Fleet) Check(ctx context.Context) ([]string, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "check", f.check)
}

func (f *Fleet) check(ctx context.Context) ([]string, error) {
	var info system.Info
	var version string
	err := f.read(ctx, func(ctx context.Context, c *client.Client) (err error) {
		version = c.ClientVersion()
		info, err = c.Info(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the engine's information: %w", err)
	}
	found := []string{fmt.Sprintf("connected to Docker %s, API version %s", info.ServerVersion, version)}
	if !info.Swarm.ControlAvailable {
		return found, noManager(info)
	}
	found = append(found, fmt.Sprintf("node %q is one of %d managers in a swarm with %d nodes", info.Name, info.Swarm.Managers, info.Swarm.Nodes))
	if err := f.tryUpdate(ctx); err != nil {
		return found, err
	}
	found = append(found, "may read and update services")
	return append(found, f.checkNodes(ctx)...), nil
}

// noManager returns the error for an engine that is not a manager.
func noManager(info system.Info) error {
	err := fmt.Errorf("%w: the engine of %q is not a swarm manager (its swarm state is %s)", targets.ErrTransient, info.Name, info.Swarm.LocalNodeState)
	if info.Swarm.Error != "" {
		err = fmt.Errorf("%w: %s", err, info.Swarm.Error)
	}
	return managerError(err)
}

// tryUpdate sends an invalid update to test the permission.
func (f *Fleet) tryUpdate(ctx context.Context) error {
	const missing = "hpad-check"
	err := f.engine.Read(ctx, func(ctx context.Context, c *client.Client) error {
		_, err := c.ServiceUpdate(ctx, missing, swarm.Version{}, swarm.ServiceSpec{}, swarm.ServiceUpdateOptions{})
		return err
	})
	if errors.Is(err, targets.ErrForbidden) {
		return fmt.Errorf("services can be read but not updated: %w (a proxy in front of the engine must allow POST /services/*/update)", err)
	}
	return nil
}

// checkNodes returns nodes without an engine, engines without a node, and unreachable engines.
func (f *Fleet) checkNodes(ctx context.Context) []string {
	list, err := f.nodes.list(ctx)
	if err != nil {
		return []string{"cpu and memory cannot be sampled, because the nodes are unknown: " + err.Error()}
	}
	names := list.names
	var found, blind []string
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if f.nodes.engines[id] == nil && f.nodes.engines[names[id]] == nil && id != list.own {
			blind = append(blind, names[id])
		}
	}
	if len(blind) > 0 {
		slices.Sort(blind)
		found = append(found, fmt.Sprintf("cpu and memory of tasks on %q cannot be sampled: nodes contains no engine for them", blind))
	}
	for _, key := range slices.Sorted(maps.Keys(f.nodes.engines)) {
		_, isID := names[key]
		if !isID && !slices.Contains(slices.Collect(maps.Values(names)), key) {
			found = append(found, fmt.Sprintf("nodes contains %q, which is not the ID or hostname of a node; the nodes are %s", key, strings.Join(slices.Sorted(maps.Values(names)), ", ")))
		}
		if _, err := f.nodes.engines[key].Client(ctx); err != nil {
			found = append(found, fmt.Sprintf("cpu and memory of tasks on %q cannot be sampled: %v", key, err))
		}
	}
	return found
}
