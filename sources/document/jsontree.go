package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/theory/jsonpath/spec"

	"github.com/hpad/hpad/sources"
)

// jsonDocument is a JSON document. Its values are positions in its text, because Go values are several times
// more expensive to build and to release.
type jsonDocument struct {
	text []byte
	// values contains the members of each object, sorted by name, and the elements of each array. The last
	// value is the root.
	values []value
	depth  int
	// tree returns the document as Go values.
	tree func() (any, error)
	// open contains the values in objects and arrays that have not been read completely.
	open []value
}

// value is a value of a JSON document. An object or array contains values[start:end]. Another value is
// text[start:end], and a string without escapes excludes its quotes.
type value struct {
	kind       jsontext.Kind
	start, end uint32
	// name is the position of the name of a member of an object, like that of a string.
	name struct{ start, end uint32 }
}

func parseJSON(page Page) (document, error) {
	d := &jsonDocument{text: page.Text}
	d.tree = sync.OnceValues(func() (root any, err error) {
		err = json.Unmarshal(d.text, &root)
		return root, err
	})
	if err := d.read(); err != nil {
		if _, detailed := d.tree(); detailed != nil {
			err = detailed // it also names the position
		}
		return nil, fmt.Errorf("the document%s is not complete and valid JSON: %s", page.ofType(), sources.Shorten(err.Error(), maxShownText))
	}
	if d.depth > maxDepth {
		return nil, fmt.Errorf("the document has more than %d nested objects and arrays", maxDepth)
	}
	return d, nil
}

// read reads all values.
func (d *jsonDocument) read() error {
	most := 1
	for _, first := range []string{"{", "[", ","} { // precedes each value except the root
		most += bytes.Count(d.text, []byte(first))
	}
	d.values, d.open = make([]value, 0, most), make([]value, 0, most)
	decoder := jsontext.NewDecoder(bytes.NewBuffer(d.text))
	if err := d.readValue(decoder, value{}, 1); err != nil {
		return err
	}
	d.values, d.open = append(d.values, d.open...), nil
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("the document contains more than one value")
	}
	return nil
}

// readValue reads the value v, which has only a name, and the values in it. depth is the number of nested
// objects and arrays up to v if v is one.
func (d *jsonDocument) readValue(decoder *jsontext.Decoder, v value, depth int) (err error) {
	if v.kind = decoder.PeekKind(); v.kind != '{' && v.kind != '[' {
		if v.start, v.end, err = d.readScalar(decoder); err == nil && v.kind == '0' {
			_, err = strconv.ParseFloat(string(d.text[v.start:v.end]), 64)
		}
		d.open = append(d.open, v)
		return err
	}
	if _, err := decoder.ReadToken(); err != nil {
		return err
	}
	d.depth = max(d.depth, depth)
	first := len(d.open)
	for kind := decoder.PeekKind(); kind != '}' && kind != ']'; kind = decoder.PeekKind() {
		var inner value
		if v.kind == '{' {
			if inner.name.start, inner.name.end, err = d.readScalar(decoder); err != nil {
				return err
			}
		}
		if err := d.readValue(decoder, inner, depth+1); err != nil {
			return err
		}
	}
	if v.kind == '{' {
		slices.SortFunc(d.open[first:], func(a, b value) int { return bytes.Compare(d.nameOf(a), d.nameOf(b)) })
	}
	v.start, v.end = uint32(len(d.values)), uint32(len(d.values)+len(d.open)-first)
	d.values, d.open = append(d.values, d.open[first:]...), append(d.open[:first], v)
	_, err = decoder.ReadToken()
	return err
}

// readScalar reads a name, or a value that is not an object or array.
func (d *jsonDocument) readScalar(decoder *jsontext.Decoder) (start, end uint32, err error) {
	text, err := decoder.ReadValue()
	end = uint32(decoder.InputOffset())
	start = end - uint32(len(text))
	if text.Kind() == '"' && bytes.IndexByte(text, '\\') < 0 {
		start, end = start+1, end-1
	}
	return start, end, err
}

// unquoted returns the text of a string, number, Boolean or null, or of a name.
func (d *jsonDocument) unquoted(start, end uint32) []byte {
	text := d.text[start:end]
	if len(text) > 0 && text[0] == '"' {
		text, _ = jsontext.AppendUnquote(nil, text) // valid, because the decoder has read it
	}
	return text
}

func (d *jsonDocument) nameOf(v value) []byte { return d.unquoted(v.name.start, v.name.end) }

// walk calls visit for each value that the segments of a path select in the last value of a node, until an
// error. A node contains the indexes of the values on the way from the root, and is only valid during the call.
// tree is the last value as a Go value, or nil if no selector is a filter.
func (d *jsonDocument) walk(node []uint32, tree any, segments []*spec.Segment, visit func(node []uint32) error) error {
	if len(segments) == 0 {
		return visit(node)
	}
	in := d.values[node[len(node)-1]]
	if in.kind != '{' && in.kind != '[' {
		return nil
	}
	for _, selector := range segments[0].Selectors() {
		first, end, step := d.selected(in, selector)
		for i := first; i < end; i += step {
			inner := d.inner(tree, in, i)
			if filter, ok := selector.(*spec.FilterSelector); ok && !filter.Eval(inner, nil) {
				continue
			}
			if err := d.walk(append(node, uint32(i)), inner, segments[1:], visit); err != nil {
				return err
			}
		}
	}
	for i := in.start; i < in.end && segments[0].IsDescendant(); i++ {
		if err := d.walk(append(node, i), d.inner(tree, in, int(i)), segments, visit); err != nil {
			return err
		}
	}
	return nil
}

// selected returns the indexes of the values that a selector selects in an object or array: each step-th from
// first to before end. For a filter, these are all values in it.
func (d *jsonDocument) selected(in value, selector spec.Selector) (first, end, step int) {
	first, end, step = 0, int(in.end-in.start), 1
	switch selector := selector.(type) {
	case spec.Name:
		if i, ok := d.member(in, string(selector)); ok {
			return i, i + 1, 1
		}
		return 0, 0, 1
	case spec.Index:
		if first = int(selector); first < 0 {
			first += end
		}
		if in.kind == '{' || first < 0 || first >= end {
			return 0, 0, 1
		}
		end = first + 1
	case spec.SliceSelector:
		first, end = selector.Bounds(end)
		step = selector.Step()
		if in.kind == '{' || step == 0 || first >= end {
			return 0, 0, 1
		}
		if step < 0 { // from the bound end, which is included, to before the bound first
			first, end, step = end-(end-first-1)/-step*-step, end+1, -step
		}
	}
	return first + int(in.start), end + int(in.start), step
}

// member returns the index of the member of an object with a name.
func (d *jsonDocument) member(in value, name string) (i int, ok bool) {
	if in.kind != '{' {
		return 0, false
	}
	i, ok = slices.BinarySearchFunc(d.values[in.start:in.end], name, func(v value, name string) int {
		switch found := d.nameOf(v); {
		case string(found) < name:
			return -1
		case string(found) > name:
			return 1
		}
		return 0
	})
	return int(in.start) + i, ok
}

// inner returns the Go value of values[i], which is in an object or array with the given Go value.
func (d *jsonDocument) inner(tree any, in value, i int) any {
	switch tree := tree.(type) {
	case map[string]any:
		return tree[string(d.nameOf(d.values[i]))]
	case []any:
		return tree[i-int(in.start)]
	}
	return nil
}
