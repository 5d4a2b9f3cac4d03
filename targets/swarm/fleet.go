package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// notSwarmManager is the reason for an error if the engine is not a manager, or if its swarm
// has no leader.
const notSwarmManager = "NotSwarmManager"

const notManager = "not a swarm manager"

// Fleet reads and scales the services of one swarm. It is safe for concurrent
// use.
type Fleet struct {
	base    targets.Base[string]
	config  *Config
	engine  *docker.Engine
	nodes   *nodes
	sampler *docker.Sampler
}

// New returns a fleet that connects at its first reading, and makes changes only until the lease
// ends. The configuration must be valid with defaults applied; it is not modified. An error names a
// file that cannot be used.
func New(name string, config *Config, lease targets.Lease) (*Fleet, error) {
	engine, err := docker.Connect(&config.Config, lease)
	if err != nil {
		return nil, fmt.Errorf("fleet %q: %w", name, err)
	}
	nodes, err := newNodes(config, engine)
	if err != nil {
		engine.Close()
		return nil, fmt.Errorf("fleet %q: %w", name, err)
	}
	f := &Fleet{config: config, engine: engine, nodes: nodes, sampler: docker.NewSampler(config.ResourceInterval)}
	f.base.Name, f.base.Parse = name, func(service string) (string, error) { return service, nil }
	return f, nil
}

// Close stops the sampler and closes the connections.
func (f *Fleet) Close() error {
	if f.base.MarkClosed() {
		f.sampler.Close()
		f.nodes.close()
		f.engine.Close()
	}
	return nil
}

// Samples returns the CPU and memory usage of each running task on a node with a known engine.
func (f *Fleet) Samples(ctx context.Context, refs []targets.Ref) (map[targets.Ref]targets.Samples, error) {
	return targets.CallUnlessClosed(ctx, &f.base, "sample", func(context.Context) (map[targets.Ref]targets.Samples, error) {
		return f.sampler.Samples(refs)
	})
}

func (f *Fleet) read(ctx context.Context, call func(context.Context, *client.Client) error) error {
	return managerError(f.engine.Read(ctx, call))
}

// managerError adds a remedy to the error if an engine is not a manager.
func managerError(err error) error {
	if err == nil || !strings.Contains(err.Error(), notManager) || errors.Is(err, targets.ErrForbidden) {
		return err
	}
	return &targets.ReasonError{
		Reason: notSwarmManager,
		Err:    fmt.Errorf("%w; host must be a manager: see \"docker node ls\" and \"docker node promote\"", err),
	}
}

// WriteLogs writes the output of a task, if its logging driver stores it.
func (f *Fleet) WriteLogs(ctx context.Context, _ targets.Ref, id string, query targets.LogQuery, to io.Writer) error {
	if query.Previous {
		return errors.New("a task does not restart; \"docker service ps\" lists the previous tasks")
	}
	return docker.WriteLogs(ctx, &f.config.Config, (*client.Client).TaskLogs, nil, id, query, to)
}
