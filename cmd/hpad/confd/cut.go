package confd

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"sort"

	"github.com/BurntSushi/toml"
	"github.com/pelletier/go-toml/v2/unstable"
)

// autoscalersKey is the table that all autoscalers are in.
const autoscalersKey = "autoscalers"

// ErrEntangled is that an autoscaler is written in a way that it cannot be cut
// out of, as one line with others.
var ErrEntangled = errors.New("its tables are not on lines of their own")

// Lines are lines of a file, both included, from 1.
type Lines struct{ First, Last int }

// Cutting is what is left of a text without an autoscaler.
type Cutting struct {
	// Rest is the text without the lines that are gone, and otherwise unchanged.
	Rest []byte
	// Gone are the lines of the autoscaler's tables, in order.
	Gone []Lines
	// Kept are comments directly above these, which are left for a person to judge.
	Kept []Lines
	// Bare reports whether Rest holds nothing but comments, if any, and Empty whether it holds
	// nothing at all.
	Bare, Empty bool
}

// Holds reports whether a text, which is the TOML of a configuration, has the tables
// of an autoscaler. The error is the TOML parser's.
func Holds(text []byte, name string) (bool, error) {
	tree, err := decode(text)
	if err != nil {
		return false, err
	}
	_, ok := named(tree)[name]
	return ok, nil
}

// HoldsService reports whether the file at a path has a service of a fleet, as a part of
// it that is spread over files. A file that cannot be read has none.
func HoldsService(path, fleet string) bool {
	var file struct {
		Fleets map[string]struct {
			Services map[string]any `toml:"services"`
		} `toml:"fleets"`
	}
	_, err := toml.DecodeFile(path, &file)
	return err == nil && len(file.Fleets[fleet].Services) > 0
}

// Find returns the lines of an autoscaler's tables in a text, as far as they are
// lines of their own.
func Find(text []byte, name string) []Lines {
	c := cutter{lines: bytes.SplitAfter(text, []byte("\n")), name: name}
	c.parse(text)
	var found []Lines
	for _, span := range c.spans() {
		found = append(found, Lines{First: span.First + 1, Last: span.Last + 1})
	}
	return found
}

// Cut cuts the tables of an autoscaler out of a text that holds them: their keys
// with the comments between them, and the notes, which are comments, where they
// are directly above. The error is the TOML parser's or ErrEntangled.
func Cut(text []byte, name string, notes ...string) (*Cutting, error) {
	want, err := decode(text)
	if err != nil {
		return nil, err
	}
	c := cutter{lines: bytes.SplitAfter(text, []byte("\n")), name: name}
	c.parse(text)
	cutting := c.cut(notes)
	got, err := decode(cutting.Rest)
	if err != nil {
		return nil, ErrEntangled // a line that was cut belonged to something else too
	}
	autoscalers := named(want)
	delete(autoscalers, name)
	if len(autoscalers) == 0 {
		delete(want, autoscalersKey)
	}
	if len(named(got)) == 0 {
		delete(got, autoscalersKey)
	}
	if !reflect.DeepEqual(selfEqual(want), selfEqual(got)) {
		return nil, ErrEntangled
	}
	cutting.Bare = len(got) == 0
	cutting.Empty = len(bytes.TrimSpace(bytes.TrimPrefix(cutting.Rest, byteOrderMark))) == 0
	return cutting, nil
}

func decode(text []byte) (map[string]any, error) {
	tree := map[string]any{}
	_, err := toml.Decode(string(text), &tree)
	return tree, err
}

// notANumber stands for a NaN, which is not even equal to itself.
type notANumber struct{}

// selfEqual returns a tree with all that equals itself.
func selfEqual(value any) any {
	switch value := value.(type) {
	case float64:
		if math.IsNaN(value) {
			return notANumber{}
		}
	case map[string]any:
		tree := make(map[string]any, len(value))
		for key, inner := range value {
			tree[key] = selfEqual(inner)
		}
		return tree
	case []any:
		return each(value)
	case []map[string]any:
		return each(value)
	}
	return value
}

func each[E any](array []E) []any {
	elements := make([]any, len(array))
	for i, element := range array {
		elements[i] = selfEqual(element)
	}
	return elements
}

// named returns the autoscalers of a tree; it may be nil.
func named(tree map[string]any) map[string]any {
	autoscalers, _ := tree[autoscalersKey].(map[string]any)
	return autoscalers
}

// cutter finds what belongs to an autoscaler, by lines that count from 0.
type cutter struct {
	lines [][]byte
	name  string
	// starts are the lines on which headers and keys begin, in order; owned says
	// which of them are the autoscaler's.
	starts []int
	owned  []bool
	// comments are the lines that are comments outside of values.
	comments map[int]bool
}

// byteOrderMark is what some editors begin a file with.
var byteOrderMark = []byte("\xef\xbb\xbf")

// parse finds the headers and keys of a text that is valid TOML.
func (c *cutter) parse(text []byte) {
	text = bytes.TrimPrefix(text, byteOrderMark) // which the parser does not take
	c.comments = map[int]bool{}
	var ends []int
	for i, b := range text {
		if b == '\n' {
			ends = append(ends, i)
		}
	}
	parser := unstable.Parser{KeepComments: true}
	parser.Reset(text)
	var table []string
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind == unstable.Comment {
			c.comments[sort.SearchInts(ends, int(node.Raw.Offset))] = true
			continue
		}
		path := []string{}
		if node.Kind == unstable.KeyValue {
			path = slices.Clone(table)
		}
		start := -1
		for keys := node.Key(); keys.Next(); {
			key := keys.Node()
			path = append(path, string(key.Data))
			if start < 0 {
				start = sort.SearchInts(ends, int(key.Raw.Offset))
			}
		}
		if node.Kind != unstable.KeyValue {
			table = path
		}
		c.starts = append(c.starts, start)
		c.owned = append(c.owned, len(path) > 1 && path[0] == autoscalersKey && path[1] == c.name)
	}
}

// spans returns the lines of the autoscaler's headers and keys, with what is
// between those that follow each other. They count from 0.
func (c *cutter) spans() []Lines {
	var spans []Lines
	before := false
	for i, start := range c.starts {
		if !c.owned[i] {
			before = false
			continue
		}
		next := len(c.lines)
		if i+1 < len(c.starts) {
			next = c.starts[i+1]
		}
		last := c.lastOf(start, next)
		if before {
			spans[len(spans)-1].Last = last
		} else {
			spans = append(spans, Lines{First: start, Last: last})
		}
		before = true
	}
	return spans
}

// lastOf returns the last line of what begins at start, when something else
// begins at next: comments right below it are part of it, unless something
// follows right below them.
func (c *cutter) lastOf(start, next int) int {
	last := next - 1
	for last > start && (c.blank(last) || c.comment(last)) {
		last--
	}
	below := last
	for below+1 < next && c.comment(below+1) {
		below++
	}
	if below+1 == next && next < len(c.lines) {
		return last
	}
	return below
}

func (c *cutter) cut(notes []string) *Cutting {
	cutting := &Cutting{}
	from := 0
	for _, span := range c.spans() {
		for span.First > from && c.comment(span.First-1) && slices.Contains(notes, c.note(span.First-1)) {
			span.First--
		}
		cutting.Rest = append(cutting.Rest, bytes.Join(c.lines[from:span.First], nil)...)
		cutting.Gone = append(cutting.Gone, Lines{First: span.First + 1, Last: span.Last + 1})
		above := span.First
		for above > from && c.comment(above-1) {
			above--
		}
		if above < span.First {
			cutting.Kept = append(cutting.Kept, Lines{First: above + 1, Last: span.First})
		}
		from = span.Last + 1
		// Of the blank lines around it, those below go.
		if span.First == 0 || c.blank(span.First-1) {
			for from < len(c.lines) && c.blank(from) {
				from++
			}
		}
	}
	cutting.Rest = append(cutting.Rest, bytes.Join(c.lines[from:], nil)...)
	return cutting
}

func (c *cutter) blank(line int) bool { return len(bytes.TrimSpace(c.lines[line])) == 0 }

func (c *cutter) comment(line int) bool { return c.comments[line] }

// note returns what a comment says.
func (c *cutter) note(line int) string {
	text := bytes.TrimSpace(bytes.TrimPrefix(c.lines[line], byteOrderMark))
	return string(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("#"))))
}
