package swarm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

const (
	// learningInterval is how long to wait before listing nodes again where that is
	// forbidden, retryInterval where it failed otherwise.
	learningInterval = time.Minute
	retryInterval    = 5 * time.Second
	// learningWait is how long a round waits for the list, which is worth less than it.
	learningWait = 2 * time.Second
)

// nodes are the swarm's nodes and their engines. They are safe for concurrent use.
type nodes struct {
	manager *docker.Engine
	// engines are the configured ones, by the id or the hostname of a node.
	engines map[string]*docker.Engine
	// ctx ends with the fleet; work is the list under way.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu sync.Mutex
	// listing reports whether a list is under way.
	listing bool
	// own is the id of the manager's node, names are the hostnames of all.
	own   string
	names map[string]string
	// err is why the last list failed, begun when it began.
	err   error
	begun time.Time
}

// newNodes connects the engines of the configured nodes.
func newNodes(config *Config, manager *docker.Engine) (*nodes, error) {
	n := &nodes{manager: manager, engines: map[string]*docker.Engine{}, names: map[string]string{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	for node, host := range config.Nodes {
		c := config.Config
		c.Host = host
		engine, err := docker.Connect(&c)
		if err != nil {
			n.close()
			return nil, fmt.Errorf("nodes.%s: %w", node, err)
		}
		n.engines[node] = engine
	}
	return n, nil
}

// close gives up a list under way and the connections nobody uses.
func (n *nodes) close() {
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	n.work.Wait()
	for _, engine := range n.engines {
		engine.Close()
	}
}

// learn lists the nodes where some of those in use are not known, and waits a moment for
// the result. Until it comes they stay unknown.
func (n *nodes) learn(ctx context.Context, running map[string]bool, now time.Time) {
	listed := n.begin(running, now)
	if listed == nil {
		return
	}
	timer := time.NewTimer(learningWait)
	defer timer.Stop()
	select {
	case <-listed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin begins to list the nodes, where some are not known and it is time to, and
// returns what is closed at the end; nil where it did not.
func (n *nodes) begin(running map[string]bool, now time.Time) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	unknown := false
	for id := range running {
		if _, ok := n.names[id]; !ok {
			unknown = true
		}
	}
	interval := retryInterval
	if errors.Is(n.err, targets.ErrForbidden) {
		interval = learningInterval
	}
	if !unknown || n.listing || n.ctx.Err() != nil || n.err != nil && now.Sub(n.begun) < interval {
		return nil
	}
	n.listing, n.begun = true, now
	listed := make(chan struct{})
	n.work.Go(func() {
		defer close(listed)
		own, names, err := n.list(n.ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.listing, n.err = false, err
		if err != nil {
			return
		}
		n.own, n.names = own, names
		for id := range running {
			if _, ok := names[id]; !ok {
				n.names[id] = "" // removed from the swarm, not to be listed for again
			}
		}
	})
	return listed
}

// list returns the id of the manager's node, and the hostnames of all by their ids.
func (n *nodes) list(ctx context.Context) (own string, names map[string]string, err error) {
	err = n.manager.Read(ctx, func(ctx context.Context, c *client.Client) error {
		info, err := c.Info(ctx)
		if err != nil {
			return fmt.Errorf("ask for the manager's node: %w", err)
		}
		own = info.Swarm.NodeID
		all, err := c.NodeList(ctx, swarm.NodeListOptions{})
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		names = make(map[string]string, len(all))
		for _, node := range all {
			names[node.ID] = node.Description.Hostname
		}
		return nil
	})
	return own, names, err
}

// name returns a node's hostname, and its id where that is not known.
func (n *nodes) name(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.names[id]; name != "" {
		return name
	}
	return id
}

// engineOf returns the engine of a node, and an error where none is known.
func (n *nodes) engineOf(id string) (*docker.Engine, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name := n.names[id]
	for _, key := range []string{id, name} {
		if engine := n.engines[key]; engine != nil && key != "" {
			return engine, nil
		}
	}
	switch {
	case id == n.own && id != "":
		return n.manager, nil
	case n.own == "" && n.err != nil:
		return nil, fmt.Errorf("%w: it is not known whether a task runs on the manager: %w", targets.ErrTransient, n.err)
	case name == "":
		name = id
	}
	return nil, fmt.Errorf("%w: a task runs on node %q, whose engine nodes does not name: add nodes = { %q = \"tcp://…\" } to the fleet, or take the metric from Prometheus", targets.ErrTransient, name, name)
}

// container returns the container by which the use of a running task is sampled.
func (n *nodes) container(service *swarm.Service, task *swarm.Task) docker.Container {
	c := docker.Container{Instance: task.ID, Task: service.Spec.Name, Started: task.Status.Timestamp}
	if task.Status.ContainerStatus == nil || task.Status.ContainerStatus.ContainerID == "" {
		c.Err = fmt.Errorf("%w: the swarm does not tell the container of task %s", targets.ErrTransient, task.ID)
		return c
	}
	c.ID = task.Status.ContainerStatus.ContainerID
	c.Engine, c.Err = n.engineOf(task.NodeID)
	return c
}

// location returns where a task is to be found: by its addresses in the networks of the
// service, and there by the ports that the service listens on.
func (n *nodes) location(service *swarm.Service, task *swarm.Task) targets.Location {
	l := targets.Location{Name: fmt.Sprintf("%s.%d.%s", service.Spec.Name, task.Slot, task.ID), Node: n.name(task.NodeID)}
	for _, attachment := range task.NetworksAttachments {
		if attachment.Network.Spec.Ingress {
			continue // reached by published ports only
		}
		for _, text := range attachment.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				l.Addresses = append(l.Addresses, prefix.Addr().String())
			}
		}
	}
	ports := service.Endpoint.Ports
	for _, port := range ports {
		label := port.Name
		if label == "" && len(ports) > 1 {
			label = strconv.FormatUint(uint64(port.TargetPort), 10)
		}
		l.Ports.Set(label, int(port.TargetPort))
	}
	if task.Spec.ContainerSpec != nil {
		l.Labels = task.Spec.ContainerSpec.Labels
	}
	return l
}
