package document

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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
func (p path) visits(d jsonDocument) int {
	visits := d.values * (1 + strings.Count(p.bare, "@")) << strings.Count(p.bare, ",")
	if strings.Contains(p.bare, "..") {
		visits *= d.depth // the library copies the list of values at each level
	}
	return visits
}

// parsePath parses a JSONPath. It rejects paths whose cost is more than linear in the size of a document.
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

// selector returns a PromQL selector whose name consists of the names in the path.
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

// jsonDocument is a JSON document with the number of its values and of its nested objects and arrays.
type jsonDocument struct {
	root          any
	values, depth int
}

func parseJSON(page Page) (document, error) {
	var root any
	if err := json.Unmarshal(page.Text, &root); err != nil {
		return nil, fmt.Errorf("the document%s is not complete and valid JSON: %s", page.ofType(), sources.Shorten(err.Error(), maxShownText))
	}
	d := jsonDocument{root: root}
	if d.measure(root, 0); d.depth > maxDepth {
		return nil, fmt.Errorf("the document has more than %d nested objects and arrays", maxDepth)
	}
	return d, nil
}

// measure counts a value and the values in it.
func (d *jsonDocument) measure(value any, outer int) {
	d.values++
	switch value := value.(type) {
	case map[string]any:
		d.depth = max(d.depth, outer+1)
		for _, inner := range value {
			d.measure(inner, outer+1)
		}
	case []any:
		d.depth = max(d.depth, outer+1)
		for _, inner := range value {
			d.measure(inner, outer+1)
		}
	}
}

// The labels that hpad adds to the values of a JSON document. pathLabel is the normalized path of the
// value. keyLabel is the last name in it that the query does not fix.
const (
	pathLabel = "json_path"
	keyLabel  = "json_key"
)

// allLabels is the number of values with all labels, for error messages. Other values have only those that
// the query needs.
const allLabels = 100

func (d jsonDocument) collect(query sources.Query, at, _ time.Time, c *sources.Collector) (string, error) {
	p, err := parsePath(query.Text)
	if err != nil {
		return "", err
	}
	if visits := p.visits(d); visits > maxVisits {
		return "", fmt.Errorf("the path can visit %d values, and at most %d are possible: use a simpler path or a smaller document", visits, maxVisits)
	}
	nodes := p.SelectLocated(d.root)
	if slices.ContainsFunc(nodes, func(node *spec.LocatedNode) bool { _, err := numberOf(node.Node); return err != nil }) {
		nodes.Sort() // the error must not change between readings
	}
	c.Grow(len(nodes))
	several, position := p.Query().Singular() == nil, []byte(nil)
	for i, node := range nodes {
		value, err := numberOf(node.Node)
		if err != nil {
			return "", fmt.Errorf("the value at %s is %w", sources.Shorten(node.Path.String(), maxShownQuery), err)
		}
		if several {
			position = appendPath(position[:0], node.Path)
			err = errors.Join(c.Label([]byte(pathLabel), position), c.Label([]byte(keyLabel), []byte(p.key(node.Path))))
		}
		if err = errors.Join(err, d.label(c, node.Path, query.Labels, i < allLabels), c.Add(value, at)); err != nil {
			return "", err
		}
	}
	return "the path selects no value", nil
}

// appendPath appends the normalized path of a value. It is several times faster than the method String.
func appendPath(dst []byte, at spec.NormalizedPath) []byte {
	dst = append(dst, '$')
	for _, step := range at {
		switch step := step.(type) {
		case spec.Name:
			dst = append(append(append(dst, "['"...), escape.Replace(string(step))...), "']"...)
		case spec.Index:
			dst = append(strconv.AppendInt(append(dst, '['), int64(step), 10), ']')
		}
	}
	return dst
}

var escape = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

// numberOf returns the value of a number, or of a string that contains a number.
func numberOf(value any) (float64, error) {
	switch value := value.(type) {
	case float64:
		return value, nil
	case string:
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("the string %q instead of a number", sources.Shorten(value, maxShownQuery))
		}
		return number, nil
	case bool:
		return 0, fmt.Errorf("%t instead of a number", value)
	case nil:
		return 0, errors.New("null instead of a number")
	case []any:
		return 0, fmt.Errorf("an array of %d elements instead of a number", len(value))
	}
	return 0, errors.New("an object instead of a number: select one of its members")
}

// label adds the labels of the value at a path: the strings, numbers and Booleans in the objects that
// contain the value, of which the innermost has precedence. It adds those with the given names, and with all
// set also all short strings.
func (d jsonDocument) label(c *sources.Collector, at spec.NormalizedPath, names []string, all bool) (err error) {
	var objects []map[string]any // from the outermost
	value := d.root
	for _, step := range at {
		switch step := step.(type) {
		case spec.Name:
			object, _ := value.(map[string]any)
			objects, value = append(objects, object), object[string(step)]
		case spec.Index:
			array, _ := value.([]any)
			value = array[step]
		}
	}
	for _, name := range names {
		for _, object := range slices.Backward(objects) {
			if text, ok := labelOf(object[name]); ok && name != pathLabel && name != keyLabel {
				err = errors.Join(err, c.Label([]byte(name), []byte(text)))
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
	for _, object := range slices.Backward(objects) {
		for name, value := range object {
			if text, ok := value.(string); ok && !seen[name] && len(text) <= maxShownQuery {
				seen[name] = true
				err = errors.Join(err, c.Label([]byte(name), []byte(text)))
			}
		}
	}
	return err
}

func labelOf(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	}
	return "", false
}

// key returns the last name on the way to a value that the query does not fix, or "".
func (p path) key(at spec.NormalizedPath) string {
	segments := p.Query().Segments()
	if slices.ContainsFunc(segments, (*spec.Segment).IsDescendant) {
		return ""
	}
	for i, segment := range slices.Backward(segments) {
		selectors := segment.Selectors()
		if _, fixed := selectors[0].(spec.Name); fixed && len(selectors) == 1 {
			continue
		}
		if name, ok := at[i].(spec.Name); ok {
			return string(name)
		}
	}
	return ""
}
