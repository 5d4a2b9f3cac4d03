package nomad

import (
	"strings"
	"sync"
)

// names are texts that many allocations have in common, as of their nodes, each of which
// is held once. They are safe for concurrent use.
type names struct {
	mu    sync.Mutex
	known map[string]string
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
