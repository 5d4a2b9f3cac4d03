package nomad

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// byName are values by their names, in the order of these, which all differ. Most have
// one or two, for which a map takes too much of memory and time.
type byName[T any] []nameAndValue[T]

type nameAndValue[T any] struct {
	name  string
	value T
}

// find returns the value of a name; nil for none.
func (n byName[T]) find(name string) *T {
	i, found := n.search(name)
	if !found {
		return nil
	}
	return &n[i].value
}

func (n byName[T]) search(name string) (int, bool) {
	return slices.BinarySearchFunc(n, name, func(v nameAndValue[T], name string) int { return strings.Compare(v.name, name) })
}

// at returns the value of a name, which is zero where there was none.
func (n *byName[T]) at(name string) *T {
	i, found := n.search(name)
	if !found {
		*n = slices.Insert(*n, i, nameAndValue[T]{name: name})
	}
	return &(*n)[i].value
}

// quoted lists the names.
func (n byName[T]) quoted() string {
	if len(n) == 0 {
		return "none"
	}
	names := make([]string, len(n))
	for i := range n {
		names[i] = n[i].name
	}
	return `"` + strings.Join(names, `", "`) + `"`
}

// UnmarshalJSONFrom reads an object, without the members that are null.
func (n *byName[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*n = nil
	return eachMember(d, func(text []byte) error {
		name := string(text)
		if d.PeekKind() == 'n' {
			return d.SkipValue()
		}
		return json.UnmarshalDecode(d, n.at(name))
	})
}
