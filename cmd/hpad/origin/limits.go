package origin

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

const (
	// MaxLines is the maximum number of lines and commas of a file. The parser needs up to 300 bytes for
	// each.
	MaxLines = 1_000_000
	// maxDepth is the maximum nesting of a document, and maxKeys the maximum size of a mapping. The time
	// to read a document is quadratic in both.
	maxDepth = 64
	maxKeys  = 5000
)

// Oversized returns the reason why a document is too large to be read, or "".
func Oversized(document *yaml.Node) string {
	m := measurer{sizes: map[*yaml.Node]int{}, heights: map[*yaml.Node]int{}}
	size, _ := m.measure(document, 0)
	switch {
	case m.depth > maxDepth:
		return fmt.Sprintf("has more than %d nested mappings and lists", maxDepth)
	case m.keys > maxKeys:
		return fmt.Sprintf("has a mapping with more than %d keys", maxKeys)
	case size > maxFile:
		return fmt.Sprintf("is larger than %d MiB with its aliases: write the values without aliases", maxFile>>20)
	}
	return ""
}

type measurer struct {
	// sizes and heights contain the results for the nodes that have an anchor.
	sizes, heights map[*yaml.Node]int
	depth, keys    int
}

// measure returns the approximate size of a node in bytes after its aliases are replaced, at most
// maxFile+1, and the number of levels below it. It visits each node once.
func (m *measurer) measure(node *yaml.Node, depth int) (size, height int) {
	if node.Kind == yaml.AliasNode { // an alias in its own anchor has no size yet; the decoder rejects it
		height = m.heights[node.Alias]
		m.depth = max(m.depth, depth+height)
		return 1 + m.sizes[node.Alias], height
	}
	if m.depth = max(m.depth, depth); depth > maxDepth {
		return 0, 0
	}
	if node.Kind == yaml.MappingNode {
		m.keys = max(m.keys, len(node.Content)/2)
	}
	size = 1 + len(node.Value)
	for _, inner := range node.Content {
		more, levels := m.measure(inner, depth+1)
		size, height = min(size+more, maxFile+1), max(height, levels+1)
	}
	if node.Anchor != "" {
		m.sizes[node], m.heights[node] = size, height
	}
	return size, height
}
