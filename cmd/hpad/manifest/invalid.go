package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hpad/hpad/settings/quantity"
)

// quantityFields contains the names of all fields with a quantity.
var quantityFields = []string{"averageValue", "tolerance", "value"}

// invalidQuantities adds an error for each invalid quantity below a node, because the decoder's error
// does not contain the field. It reports whether it found one.
func (r *reader) invalidQuantities(node *yaml.Node, path string) bool {
	found := false
	each(node, path, func(name, path string, value *yaml.Node) {
		isQuantity := slices.Contains(quantityFields, name) && strings.HasPrefix(path, "spec.")
		if kind, composite := composites[value.Kind]; composite && isQuantity {
			r.add(value.Line, "%s: must be a quantity, not %s", path, kind)
			found = true
			return
		}
		if value.Kind != yaml.ScalarNode {
			found = r.invalidQuantities(value, path) || found
			return
		}
		if _, err := quantity.Parse(value.Value); err != nil && isQuantity {
			r.add(value.Line, "%s: %v", path, err)
			found = true
		}
	})
	return found
}

var composites = map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a sequence"}

// misfit returns the first value at a path without indexes that does not have a kind, and its path
// with indexes. At the end of the path, it also searches the values of a mapping.
func misfit(node *yaml.Node, names []string, path string, kind reflect.Kind) (found *yaml.Node, exact string) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind == yaml.ScalarNode {
		if len(names) == 0 && !fits(node, kind) {
			return node, path
		}
		return nil, ""
	}
	each(node, path, func(name, path string, value *yaml.Node) {
		if found != nil {
			return
		}
		switch {
		case name == "", len(names) == 0:
			found, exact = misfit(value, names, path, kind)
		case name == names[0]:
			found, exact = misfit(value, names[1:], path, kind)
		}
	})
	return found, exact
}

// fits reports whether a scalar can be decoded to a kind.
func fits(node *yaml.Node, kind reflect.Kind) bool {
	switch kind {
	case reflect.String:
		return node.Tag == "!!str" || node.Tag == "!!null"
	case reflect.Bool:
		return node.Tag == "!!bool"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return node.Tag == "!!int"
	}
	return false
}

// each calls visit for each value of a mapping or sequence. name is "" in a sequence.
func each(node *yaml.Node, path string, visit func(name, path string, value *yaml.Node)) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i].Value
			visit(name, strings.TrimPrefix(path+"."+name, "."), node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, element := range node.Content {
			visit("", fmt.Sprintf("%s[%d]", path, i), element)
		}
	}
}
