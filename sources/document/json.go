package document

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"github.com/hpad/hpad/sources"
)

// The limits of paths and documents. Labels can contain paths, and a selection cannot be canceled.
const (
	// maxPath is the maximum length of a path in bytes.
	maxPath = 1 << 10
	// maxCommas is the maximum number of selectors in addition to one per segment, because each of them
	// can select the same values again.
	maxCommas = 4
	// maxDepth is the maximum number of nested objects and arrays in a document.
	maxDepth = 100
	// maxVisits limits the cost of one selection, which takes up to a microsecond per visit.
	maxVisits = 4_000_000
)

// path is a parsed JSONPath. bare is its text without the contents of strings.
type path struct {
	*jsonpath.Path
	bare string
}

// visits returns an upper bound for the number of visits to the values of a document.
func (p path) visits(d *jsonDocument) int {
	visits := len(d.values) * (1 + strings.Count(p.bare, "@")) << strings.Count(p.bare, ",")
	if strings.Contains(p.bare, "..") {
		visits *= d.depth // in a filter, the library copies the list of values at each level
	}
	return visits
}

// parsePath parses a JSONPath. It rejects paths that need more than linear time for a document.
func parsePath(text string) (path, error) {
	if len(text) > maxPath {
		return path{}, fmt.Errorf("has %d bytes, and a JSONPath can have at most %d", len(text), maxPath)
	}
	parsed, err := jsonpath.Parse(text)
	if err != nil {
		return path{}, fmt.Errorf(`is not a JSONPath (RFC 9535), such as "$.queue.length": %s`, strings.TrimPrefix(err.Error(), jsonpath.ErrPathParse.Error()+": "))
	}
	bare := quoted.ReplaceAllString(text, "")
	switch {
	case strings.Count(bare, "..") > 1:
		return path{}, errors.New("can contain .. only once")
	case strings.Count(bare, "$") > 1:
		return path{}, errors.New("can contain $ only at the beginning: compare with a literal, or with a value of the same element (@)")
	case strings.Count(bare, ",") > maxCommas:
		return path{}, fmt.Errorf("can contain at most %d commas: use a filter", maxCommas)
	case strings.Contains(bare, "match(") || strings.Contains(bare, "search("):
		return path{}, errors.New("cannot contain match or search: compare with ==, or use select in the metric")
	}
	return path{parsed, bare}, nil
}

// quoted matches a string in a JSONPath.
var quoted = regexp.MustCompile(`'(\\.|[^'\\])*'|"(\\.|[^"\\])*"`)

// selector returns a PromQL selector with a name that consists of the names in the path.
func (p path) selector() string {
	var words []string
	for _, segment := range p.Query().Segments() {
		for _, selector := range segment.Selectors() {
			if name, ok := selector.(spec.Name); ok {
				words = append(words, string(name))
			}
		}
	}
	if len(words) == 0 {
		return ""
	}
	return sources.SelectorOf(strings.Join(words, "_"))
}

// The labels that hpad adds to the values of a JSON document. pathLabel is the normalized path of the
// value. keyLabel is the last name in it that the query does not fix.
const (
	pathLabel = "json_path"
	keyLabel  = "json_key"
)

// allLabels is the number of values with all labels, for error messages. Other values have only the labels that
// the query needs.
const allLabels = 100

func (d *jsonDocument) collect(query sources.Query, at, _ time.Time, c *sources.Collector) (string, error) {
	p, err := parsePath(query.Text)
	if err != nil {
		return "", err
	}
	if visits := p.visits(d); visits > maxVisits {
		return "", fmt.Errorf("the path can visit %d values, and at most %d are possible: use a simpler path or a smaller document", visits, maxVisits)
	}
	var tree any
	if strings.Contains(p.bare, "?") {
		tree, _ = d.tree() // the document is valid
	}
	segments, root := p.Query().Segments(), append(make([]uint32, 0, maxDepth+1), uint32(len(d.values)-1))
	count := 0
	if tree == nil { // without a filter, counting is much cheaper than enlarging the collector
		_ = d.walk(root, nil, segments, func([]uint32) error { count++; return nil })
		c.Grow(count)
	}
	several, position := p.Query().Singular() == nil, []byte(nil)
	count = 0
	err = d.walk(root, tree, segments, func(node []uint32) error {
		value, err := d.number(d.values[node[len(node)-1]])
		if err != nil {
			return fmt.Errorf("the value at %s is %w", sources.Shorten(string(d.appendPath(nil, node)), maxShownQuery), err)
		}
		if several {
			position = d.appendPath(position[:0], node)
			err = errors.Join(c.Label([]byte(pathLabel), position), c.Label([]byte(keyLabel), d.key(p, node)))
		}
		count++
		return errors.Join(err, d.label(c, node, query.Labels, count <= allLabels), c.Add(value, at))
	})
	return "the path selects no value", err
}

// appendPath appends the normalized path of the last value of a node.
func (d *jsonDocument) appendPath(dst []byte, node []uint32) []byte {
	dst = append(dst, '$')
	for outer, i := range node[1:] {
		if in := d.values[node[outer]]; in.kind == '[' {
			dst = append(strconv.AppendUint(append(dst, '['), uint64(i-in.start), 10), ']')
			continue
		}
		dst = append(dst, "['"...)
		for _, char := range d.nameOf(d.values[i]) {
			switch {
			case char == '\'' || char == '\\':
				dst = append(dst, '\\', char)
			case char < ' ':
				quoted, _ := jsontext.AppendQuote(nil, []byte{char}) // ASCII is valid
				dst = append(dst, quoted[1:len(quoted)-1]...)
			default:
				dst = append(dst, char)
			}
		}
		dst = append(dst, "']"...)
	}
	return dst
}

// number returns the value of a number, or of a string that contains a number.
func (d *jsonDocument) number(v value) (float64, error) {
	switch v.kind {
	case '{':
		return 0, errors.New("an object instead of a number: select one of its members")
	case '[':
		return 0, fmt.Errorf("an array of %d elements instead of a number", v.end-v.start)
	case '0', '"':
		text := d.unquoted(v.start, v.end)
		number, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return 0, fmt.Errorf("the string %q instead of a number", sources.Shorten(string(text), maxShownQuery))
		}
		return number, nil
	}
	return 0, fmt.Errorf("%s instead of a number", d.text[v.start:v.end])
}

// label adds the labels of the last value of a node: the strings, numbers and Booleans in the objects that
// contain the value, of which the innermost has precedence. It adds those with the given names, and with all
// set also all short strings.
func (d *jsonDocument) label(c *sources.Collector, node []uint32, names []string, all bool) (err error) {
	outer := node[:len(node)-1]
	for _, name := range names {
		for _, i := range slices.Backward(outer) {
			if text, ok := d.labelOf(d.values[i], name); ok && name != pathLabel && name != keyLabel {
				err = errors.Join(err, c.Label([]byte(name), text))
				break
			}
		}
	}
	if !all {
		return err
	}
	seen := map[string]bool{pathLabel: true, keyLabel: true}
	for _, name := range names {
		seen[name] = true
	}
	for _, i := range slices.Backward(outer) {
		if d.values[i].kind != '{' {
			continue
		}
		for _, v := range d.values[d.values[i].start:d.values[i].end] {
			name, text := string(d.nameOf(v)), d.unquoted(v.start, v.end)
			if v.kind == '"' && !seen[name] && len(text) <= maxShownQuery {
				seen[name] = true
				err = errors.Join(err, c.Label([]byte(name), text))
			}
		}
	}
	return err
}

// labelOf returns the text of a string, number or Boolean in an object.
func (d *jsonDocument) labelOf(object value, name string) (text []byte, ok bool) {
	i, ok := d.member(object, name)
	if !ok {
		return nil, false
	}
	switch v := d.values[i]; v.kind {
	case '0':
		number, _ := d.number(v) // valid, because readValue has parsed it
		return strconv.AppendFloat(nil, number, 'f', -1, 64), true
	case '"', 't', 'f':
		return d.unquoted(v.start, v.end), true
	}
	return nil, false
}

// key returns the last name on the way to a value that the query does not fix, or nil.
func (d *jsonDocument) key(p path, node []uint32) []byte {
	segments := p.Query().Segments()
	if slices.ContainsFunc(segments, (*spec.Segment).IsDescendant) {
		return nil
	}
	for i, segment := range slices.Backward(segments) {
		selectors := segment.Selectors()
		if _, fixed := selectors[0].(spec.Name); fixed && len(selectors) == 1 {
			continue
		}
		if d.values[node[i]].kind == '{' {
			return d.nameOf(d.values[node[i+1]])
		}
	}
	return nil
}
