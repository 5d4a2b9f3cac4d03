package config

import (
	"bytes"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/hpad/hpad/daemon/redact"
)

// place is the position of a key in a file.
type place struct {
	line int
	// text is the value as written in the file. It is empty for tables and arrays.
	text string
}

// maxValueText is the maximum length of a value in a message, in characters.
const maxValueText = 60

// lineOf returns the line of a path or of the innermost enclosing table, or 0 if neither exists.
func (d *document) lineOf(path string) int {
	if d.index == nil {
		d.index = places(d.text)
	}
	for ; path != ""; path = parentOf(path) {
		if p, ok := d.index[path]; ok {
			return p.line
		}
	}
	return 0
}

func (d *document) has(path string) bool {
	d.lineOf(path)
	_, ok := d.index[path]
	return ok
}

// textOf returns the shortened value as written in the file, without secrets. It returns "" if the
// value is missing or entirely secret.
func (d *document) textOf(path string) string {
	if d.index == nil {
		d.index = places(d.text)
	}
	for at := path; at != ""; at = parentOf(at) {
		if _, key := cutLast(at); at == path && redact.Named(key) || slices.Contains(secretTables, key) {
			return ""
		}
	}
	return shorten(redact.Text(d.index[path].text))
}

// shorten returns the first line of a text, truncated to maxValueText.
func shorten(text string) string {
	first, _, more := strings.Cut(text, "\n")
	first = strings.TrimSuffix(first, "\r")
	if utf8.RuneCountInString(first) > maxValueText {
		first, more = string([]rune(first)[:maxValueText]), true
	}
	if more {
		first += "…"
	}
	return first
}

// byteOrderMark is added by some editors at the beginning of a file.
var byteOrderMark = []byte("\xef\xbb\xbf")

// AutoscalerLine returns the first line of an autoscaler's tables in a valid TOML text, or 0 if the
// text does not define the autoscaler.
func AutoscalerLine(text []byte, name string) int {
	return places(text)[join("autoscalers", name)].line
}

// places returns the position of every key in a valid TOML document.
func places(text []byte) map[string]place {
	text = bytes.TrimPrefix(text, byteOrderMark) // the parser rejects it
	w := &placeWalk{
		found:  map[string]place{},
		arrays: map[string]int{},
	}
	for i, b := range text {
		if b == '\n' {
			w.lineEnds = append(w.lineEnds, i)
		}
	}
	w.parser.Reset(text)
	for w.parser.NextExpression() {
		w.expression(w.parser.Expression())
	}
	return w.found
}

type placeWalk struct {
	parser   unstable.Parser
	lineEnds []int
	found    map[string]place
	// arrays maps the path of each array of tables to its current number of elements.
	arrays map[string]int
	// table is the path of the current table.
	table string
}

// expression visits a header or a key with its value.
func (w *placeWalk) expression(node *unstable.Node) {
	switch node.Kind {
	case unstable.Table:
		w.table = w.keys(node, "", false)
	case unstable.ArrayTable:
		w.table = w.keys(node, "", true)
	case unstable.KeyValue:
		w.keyValue(node, w.table)
	}
}

// keys visits the keys of a header or of a key-value pair and returns their path. A key of an array
// of tables refers to the array's last element, except that the array's own header adds an element.
func (w *placeWalk) keys(node *unstable.Node, path string, array bool) string {
	keys := node.Key()
	for keys.Next() {
		key := keys.Node()
		path = join(path, string(key.Data))
		line := w.lineAt(key.Raw)
		w.add(path, line)
		if array && keys.IsLast() {
			w.arrays[path]++
		}
		if n := w.arrays[path]; n > 0 {
			path = element(path, n-1)
			w.add(path, line)
		}
	}
	return path
}

func (w *placeWalk) keyValue(node *unstable.Node, table string) {
	path := w.keys(node, table, false)
	w.value(node.Value(), path, w.found[path].line)
}

func (w *placeWalk) value(node *unstable.Node, path string, line int) {
	switch node.Kind {
	case unstable.InlineTable:
		children := node.Children()
		for children.Next() {
			if child := children.Node(); child.Kind == unstable.KeyValue {
				w.keyValue(child, path)
			}
		}
	case unstable.Array:
		children := node.Children()
		for i := 0; children.Next(); {
			child := children.Node()
			if child.Kind == unstable.Comment {
				continue
			}
			at := element(path, i)
			if child.Raw.Length > 0 {
				line = w.lineAt(child.Raw)
			}
			w.add(at, line)
			w.value(child, at, line)
			i++
		}
	default:
		p := w.found[path]
		p.text = string(w.parser.Raw(node.Raw))
		w.found[path] = p
	}
}

// add records the first line of a path.
func (w *placeWalk) add(path string, line int) {
	if _, ok := w.found[path]; !ok {
		w.found[path] = place{line: line}
	}
}

func (w *placeWalk) lineAt(at unstable.Range) int {
	return sort.SearchInts(w.lineEnds, int(at.Offset)) + 1
}
