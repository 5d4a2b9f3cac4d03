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
	// learningInterval is how long to wait before asking about nodes again that the
	// manager refused to tell of, retryInterval where it did not answer.
	learningInterval = time.Minute
	retryInterval    = 5 * time.Second
	// learningWait is how long a round waits for the answer: it is worth less than
	// the round.
	learningWait = 2 * time.Second
)

// nodes knows the swarm's nodes and their engines. It is safe for concurrent use.
type nodes struct {
	manager *docker.Engine
	// engines are the configured ones, by the id or the hostname of a node.
	engines map[string]*docker.Engine
	// ctx ends with the fleet, work is the question under way.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu sync.Mutex
	// asking says that a question is under way.
	asking bool
	// own is the id of the manager's node, names are the hostnames of all.
	own   string
	names map[string]string
	// err is why the last question was not answered, asked when it was asked.
	err   error
	asked time.Time
}

// newNodes builds the engines of the configured nodes.
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

// close gives up a question under way and the connections nobody uses.
func (n *nodes) close() {
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	n.work.Wait()
	for _, engine := range n.engines {
		engine.Close()
	}
}

// learn asks the manager about the nodes when some are not known, and waits a
// moment for the answer. Until it comes they stay unknown.
func (n *nodes) learn(ctx context.Context, running map[string]bool, now time.Time) {
	answered := n.begin(running, now)
	if answered == nil {
		return
	}
	timer := time.NewTimer(learningWait)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// begin asks about the nodes, where some are not known and it is time to, and
// answers what is closed when the answer is there; nil where nothing was asked.
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
	if !unknown || n.asking || n.ctx.Err() != nil || n.err != nil && now.Sub(n.asked) < interval {
		return nil
	}
	n.asking, n.asked = true, now
	answered := make(chan struct{})
	n.work.Go(func() {
		defer close(answered)
		own, names, err := n.ask(n.ctx)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.asking, n.err = false, err
		if err != nil {
			return
		}
		n.own, n.names = own, names
		for id := range running {
			if _, ok := names[id]; !ok {
				n.names[id] = "" // removed from the swarm, not to be asked for again
			}
		}
	})
	return answered
}

// ask asks the manager which node it is and how all of them are called.
func (n *nodes) ask(ctx context.Context) (own string, names map[string]string, err error) {
	err = n.manager.Read(ctx, func(ctx context.Context, c *client.Client) error {
		info, err := c.Info(ctx)
		if err != nil {
			return fmt.Errorf("ask for the manager's node: %w", err)
		}
		own = info.Swarm.NodeID
		list, err := c.NodeList(ctx, swarm.NodeListOptions{})
		if err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		names = make(map[string]string, len(list))
		for _, node := range list {
			names[node.ID] = node.Description.Hostname
		}
		return nil
	})
	return own, names, err
}

// name answers a node's hostname, and its id where that is not known.
func (n *nodes) name(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name := n.names[id]; name != "" {
		return name
	}
	return id
}

// engineOf answers the engine of a node, and an error where none is known.
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

// container answers where the use of a running task can be asked for.
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

// location answers where a task is to be found: by the addresses it has in the
// networks of the service, and there by the ports that the service listens on.
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
		if l.Ports == nil {
			l.Ports = make(map[string]int, len(ports))
		}
		l.Ports[label] = int(port.TargetPort)
	}
	if task.Spec.ContainerSpec != nil {
		l.Labels = task.Spec.ContainerSpec.Labels
	}
	return l
}
