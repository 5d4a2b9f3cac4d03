package nomad

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hpad/hpad/policy"
)

// names are texts that many allocations have in common, as of their nodes, and what their
// tasks reserve, each of which is held once. They are safe for concurrent use.
type names struct {
	mu    sync.Mutex
	known map[string]string
	// tasks are by what they say.
	tasks map[string][]policy.Task
}

// mostNames is how many names are known before they are forgotten: those of nodes that
// went do not stay.
const mostNames = 100_000

// share returns a text that is the same, and holds no other.
func (n *names) share(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if shared, known := n.known[text]; known {
		return shared
	}
	if n.known == nil || len(n.known) >= mostNames {
		n.known = map[string]string{}
	}
	text = strings.Clone(text)
	n.known[text] = text
	return text
}

// shareTasks returns tasks that are the same, which nobody modifies.
func (n *names) shareTasks(tasks []policy.Task) []policy.Task {
	said := fmt.Sprintf("%#v", tasks)
	n.mu.Lock()
	defer n.mu.Unlock()
	if shared, known := n.tasks[said]; known {
		return shared
	}
	if n.tasks == nil || len(n.tasks) >= mostNames {
		n.tasks = map[string][]policy.Task{}
	}
	n.tasks[said] = tasks
	return tasks
}

// What stays of allocations is gathered in few pieces of memory. Small ones would be among
// the much that goes with the answer that they were read from, each in a page of its own,
// which no collection gives back.

// gather gathers the texts that stay of allocations.
func (n *names) gather(allocs []*allocStub) {
	var own strings.Builder
	for _, alloc := range allocs {
		own.WriteString(alloc.ID)
		own.WriteString(alloc.Name)
		n.shareIn(alloc)
	}
	rest := own.String()
	for _, alloc := range allocs {
		alloc.ID, rest = rest[:len(alloc.ID)], rest[len(alloc.ID):]
		alloc.Name, rest = rest[:len(alloc.Name)], rest[len(alloc.Name):]
	}
}

// shareIn shares what an allocation has in common with others.
func (n *names) shareIn(alloc *allocStub) {
	alloc.NodeID, alloc.NodeName = n.share(alloc.NodeID), n.share(alloc.NodeName)
	reserved := alloc.AllocatedResources
	if reserved == nil {
		return
	}
	n.sharePorts(reserved.Shared.Ports)
	for i := range reserved.Tasks {
		task := &reserved.Tasks[i]
		task.name = n.share(task.name)
		for _, network := range task.value.Networks {
			n.shareNetwork(network)
		}
	}
	for _, network := range reserved.Shared.Networks {
		n.shareNetwork(network)
	}
}

func (n *names) shareNetwork(network *network) {
	if network == nil {
		return
	}
	network.IP = n.share(network.IP)
	n.sharePorts(network.ReservedPorts)
	n.sharePorts(network.DynamicPorts)
}

func (n *names) sharePorts(ports []port) {
	for i := range ports {
		ports[i].Label, ports[i].HostIP = n.share(ports[i].Label), n.share(ports[i].HostIP)
	}
}

// gatherSlices gathers a slice that each of some has.
func gatherSlices[E any, S ~[]T, T any](each []E, of func(*E) *S) {
	n := 0
	for i := range each {
		n += len(*of(&each[i]))
	}
	all := make(S, 0, n)
	for i := range each {
		one, from := of(&each[i]), len(all)
		if len(*one) == 0 {
			continue
		}
		all = append(all, *one...)
		*one = all[from:len(all):len(all)]
	}
}
