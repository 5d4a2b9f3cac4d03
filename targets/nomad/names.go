package nomad

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hpad/hpad/policy"
)

// names are what many allocations have in common, their nodes and what their tasks
// reserve, each of which is held once. They are safe for concurrent use.
type names struct {
	mu sync.Mutex
	// nodes are by their ids.
	nodes map[string]*nodeName
	// tasks are by what they say.
	tasks map[string][]policy.Task
}

// nodeName is the id and the name of a node.
type nodeName struct{ id, name string }

// mostNames is how many names are known before they are forgotten: those of nodes that
// went do not stay.
const mostNames = 100_000

// node returns a node, which holds no other text.
func (n *names) node(id, name string) *nodeName {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.nodes[id]; known != nil && known.name == name {
		return known
	}
	if n.nodes == nil || len(n.nodes) >= mostNames {
		n.nodes = map[string]*nodeName{}
	}
	made := &nodeName{strings.Clone(id), strings.Clone(name)}
	n.nodes[made.id] = made
	return made
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
