package swarm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/client"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
)

// listTimeout limits listing the nodes. Readings do not depend on the list.
const listTimeout = 2 * time.Second

// nodes contains the swarm's nodes and their engines. It is safe for concurrent use.
type nodes struct {
	manager *docker.Engine
	// engines contains the configured engines, by the ID or hostname of a node.
	engines map[string]*docker.Engine
	known   atomic.Pointer[nodeList]
}

// nodeList contains the nodes of a swarm. It is not modified.
type nodeList struct {
	// own is the ID of the manager's node. names maps the IDs of all nodes to their hostnames.
	own   string
	names map[string]string
	// err is the error of the last attempt to list the nodes.
	err error
}

// newNodes connects to the engines of the configured nodes.
func newNodes(config *Config, manager *docker.Engine) (*nodes, error) {
	n := &nodes{manager: manager, engines: map[string]*docker.Engine{}}
	n.known.Store(&nodeList{})
	for node, host := range config.Nodes {
		c := config.Config
		c.Host = host
		engine, err := docker.Connect(&c, nil) // for reads only
		if err != nil {
			n.close()
			return nil, fmt.Errorf("nodes.%s: %w", node, err)
		}
		n.engines[node] = engine
	}
	return n, nil
}

func (n *nodes) close() {
	for _, engine := range n.engines {
		engine.Close()
	}
}

// update lists the nodes if a node in use is unknown.
func (n *nodes) update(ctx context.Context, used map[string]bool) {
	known := n.known.Load()
	isKnown := func(id string) bool { _, ok := known.names[id]; return ok }
	if len(slices.DeleteFunc(slices.Collect(maps.Keys(used)), isKnown)) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	next, err := n.list(ctx)
	if err != nil {
		next = &nodeList{own: known.own, names: known.names, err: err}
	} else {
		for id := range used {
			if _, ok := next.names[id]; !ok {
				next.names[id] = "" // the node was removed from the swarm: do not list again for it
			}
		}
	}
	n.known.Store(next)
}

func (n *nodes) list(ctx context.Context) (*nodeList, error) {
	list := &nodeList{}
	err := n.manager.Read(ctx, func(ctx context.Context, c *client.Client) error {
		info, err := c.Info(ctx)
		if err != nil {
			return fmt.Errorf("read the manager's node: %w", err)
		}
		list.own = info.Swarm.NodeID
		all, err := c.NodeList(ctx, swarm.NodeListOptions{})
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		list.names = make(map[string]string, len(all))
		for _, node := range all {
			list.names[node.ID] = node.Description.Hostname
		}
		return nil
	})
	return list, err
}

// name returns a node's hostname, or its ID if the hostname is unknown.
func (n *nodes) name(id string) string {
	return cmp.Or(n.known.Load().names[id], id)
}

// engineOf returns the engine of a node.
func (n *nodes) engineOf(id string) (*docker.Engine, error) {
	known := n.known.Load()
	name := known.names[id]
	for _, key := range []string{id, name} {
		if engine := n.engines[key]; engine != nil && key != "" {
			return engine, nil
		}
	}
	switch {
	case id == known.own && id != "":
		return n.manager, nil
	case known.own == "" && known.err != nil:
		return nil, fmt.Errorf("%w: cannot determine whether a task runs on the manager: %w", targets.ErrTransient, known.err)
	case name == "":
		name = id
	}
	return nil, fmt.Errorf("%w: a task runs on node %q, and nodes contains no engine for it: add nodes = { %q = \"tcp://…\" } to the fleet, or take the metric from Prometheus", targets.ErrTransient, name, name)
}

// container returns the container of a running task.
func (n *nodes) container(service *swarm.Service, task *swarm.Task) docker.Container {
	c := docker.Container{Instance: task.ID, Task: service.Spec.Name, Name: taskName(service, task), Started: task.Status.Timestamp}
	if task.Status.ContainerStatus == nil || task.Status.ContainerStatus.ContainerID == "" {
		c.Err = fmt.Errorf("%w: the swarm has not reported the container of task %s", targets.ErrTransient, c.Name)
		return c
	}
	c.ID = task.Status.ContainerStatus.ContainerID
	c.Engine, c.Err = n.engineOf(task.NodeID)
	return c
}

// taskName returns the name of a task and its container, as the engine forms it.
func taskName(service *swarm.Service, task *swarm.Task) string {
	return fmt.Sprintf("%s.%d.%s", service.Spec.Name, task.Slot, task.ID)
}

// location returns a task's addresses in the service's networks, and the service's ports.
func (n *nodes) location(service *swarm.Service, task *swarm.Task) targets.Location {
	l := targets.Location{Name: taskName(service, task), Node: n.name(task.NodeID)}
	for _, attachment := range task.NetworksAttachments {
		if attachment.Network.Spec.Ingress {
			continue // only published ports are reachable
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
	if resources := task.Spec.Resources; resources != nil && resources.Limits != nil {
		l.Limits = docker.Amounts(resources.Limits.NanoCPUs, resources.Limits.MemoryBytes)
	}
	return l
}
