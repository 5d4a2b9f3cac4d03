package document

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/theory/jsonpath"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/sources"
)

// documents generates JSON documents with a limited depth.
func documents(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 3).Draw(t, "kind")
		if depth == 0 || kind == 0 {
			return rapid.SampledFrom([]string{"1", "2.50", "-0", "1e300", "12345678901234567890", `"5"`, `""`, `"x\u00e9\n"`, `"ü"`, "true", "false", "null"}).Draw(t, "value")
		}
		elements, space := []string{}, rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		names := rapid.Permutation([]string{`a`, `b`, ``, `\u0061b`, `d'e`, `f\"\\`, `g\n\u0001`, `ü`}).Draw(t, "names")
		for i := range rapid.IntRange(0, 5).Draw(t, "elements") {
			element := documents(depth-1).Draw(t, "element")
			if kind == 1 {
				element = `"` + names[i] + `"` + space + ":" + space + element
			}
			elements = append(elements, element)
		}
		text := strings.Join(elements, space+","+space)
		if kind == 1 {
			return "{" + text + space + "}"
		}
		return "[" + space + text + "]"
	})
}

// paths generates paths with all kinds of selectors.
var paths = rapid.Custom(func(t *rapid.T) string {
	bound := rapid.SampledFrom([]string{"", "", "0", "1", "2", "-1", "-2", "9", "-9"})
	selector := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"'a'", "'b'", `"ab"`, "''", `'d\'e'`, `'f"\\'`, `"g\n\u0001"`, "'ü'"}).Draw(t, "name")
		case 1:
			return rapid.SampledFrom([]string{"0", "1", "3", "-1", "-4"}).Draw(t, "index")
		case 2:
			return bound.Draw(t, "start") + ":" + bound.Draw(t, "end") + ":" + rapid.SampledFrom([]string{"", "1", "2", "-1", "-2", "0"}).Draw(t, "step")
		case 3:
			return rapid.SampledFrom([]string{"?@", "?@.a", "?@>1", "?@['a']<3", "?@[0]==1 || @.b", "?!@.a", "?count(@.*)>1", "?length(@)==2", "?@==null"}).Draw(t, "filter")
		}
		return "*"
	})
	path := []string{"$"}
	for range rapid.IntRange(0, 4).Draw(t, "segments") {
		path = append(path, rapid.SampledFrom([]string{"", "", "", ".."}).Draw(t, "descendants"))
		path = append(path, "["+strings.Join(rapid.SliceOfN(selector, 1, 2).Draw(t, "selectors"), ",")+"]")
	}
	return strings.Join(path, "")
})

// shownValue returns a Go value without the values in it.
func shownValue(v any) string {
	switch v := v.(type) {
	case []any:
		return fmt.Sprintf("%d elements", len(v))
	case map[string]any:
		return fmt.Sprintf("%d members", len(v))
	}
	return fmt.Sprintf("%T %[1]v", v)
}

// shownNode returns the last value of a node, as shownValue does.
func shownNode(d *jsonDocument, node []uint32) string {
	switch v := d.values[node[len(node)-1]]; v.kind {
	case '[':
		return shownValue(make([]any, v.end-v.start))
	case '{':
		return fmt.Sprintf("%d members", v.end-v.start)
	case '"':
		return shownValue(string(d.unquoted(v.start, v.end)))
	default:
		var scalar any
		_ = json.Unmarshal(d.text[v.start:v.end], &scalar)
		return shownValue(scalar)
	}
}

// TestWalk checks that a document has the same values at the same paths as with the libraries, or the same
// error, for random documents and paths.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "[" + strings.Join(rapid.SliceOfN(documents(3), 1, 4).Draw(t, "elements"), ",")
		text += rapid.SampledFrom([]string{"]", "]", "]", "]", "]", " ] ", "", "]]", ",]", ",1e999]", `,"\ud800"]`, ",01]", `,{"ab":1,"\u0061b":2}]`}).Draw(t, "end")
		var root any
		invalid := json.Unmarshal([]byte(text), &root)
		parsed, err := parseJSON(Page{Text: []byte(text)})
		if invalid != nil {
			if err == nil || !strings.HasSuffix(err.Error(), sources.Shorten(invalid.Error(), maxShownText)) {
				t.Fatalf("error %v, want %v", err, invalid)
			}
			return
		}
		for _, path := range rapid.SliceOfN(paths, 20, 20).Draw(t, "paths") {
			compareNodes(t, parsed.(*jsonDocument), root, jsonpath.MustParse(path))
		}
	})
}

// compareNodes checks the values that a path selects, of which root is the Go value.
func compareNodes(t *rapid.T, d *jsonDocument, root any, path *jsonpath.Path) {
	var got, want []string
	_ = d.walk([]uint32{uint32(len(d.values) - 1)}, root, path.Query().Segments(), func(node []uint32) error {
		got = append(got, fmt.Sprintf("%s: %s", d.appendPath(nil, node), shownNode(d, node)))
		return nil
	})
	for _, node := range path.SelectLocated(root) {
		want = append(want, fmt.Sprintf("%s: %s", node.Path, shownValue(node.Node)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s selects\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLarge checks that members of a large object are found by name, and values of a large array in a filter.
func TestLarge(t *testing.T) {
	var members, elements []string
	for i := range 5000 {
		members = append(members, fmt.Sprintf(`"w%d": {"busy": %d, "on": %t}`, 4999-i, i, i == 4000))
		elements = append(elements, fmt.Sprintf(`{"busy": %d}`, i))
	}
	source := of(JSON, fmt.Sprintf(`{"workers": {%s}, "list": [%s]}`, strings.Join(members, ","), strings.Join(elements, ",")))
	for path, want := range map[string]string{
		"$.workers.w4321.busy":          "{} 678",
		"$.workers[?@.on == true].busy": `{json_key="w999", json_path="$['workers']['w999']['busy']"} 4000`,
		"$.list[?@.busy == 4567].busy":  `{json_path="$['list'][4567]['busy']"} 4567`,
	} {
		if got := shown(source, sources.Query{Text: path}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestDepth checks the limit for nested objects and arrays.
func TestDepth(t *testing.T) {
	for depth, rejected := range map[int]bool{maxDepth: false, maxDepth + 1: true} {
		got := shown(of(JSON, strings.Repeat("[", depth)+"7"+strings.Repeat("]", depth)), sources.Query{Text: "$" + strings.Repeat("[0]", depth)})
		if strings.Contains(got, "the document has more than 100 nested objects and arrays") != rejected || !rejected && got != "{} 7\n" {
			t.Errorf("depth %d: %s", depth, got)
		}
	}
}

// TestOuterLabel checks that a label is the innermost string, number or Boolean with its name.
func TestOuterLabel(t *testing.T) {
	const text = `{"id": 7, "zone": "a", "in": {"id": null, "zone": "b", "list": [{"busy": 1, "id": []}]}}`
	vector, err := of(JSON, text).Query(t.Context(), sources.Query{Text: "$.in.list[0].busy", Labels: []string{"id", "zone", "busy"}}, time.Now())
	if err != nil || len(vector.Series) != 1 || vector.Series[0].Labels.String() != `{busy="1", id="7", zone="b"}` {
		t.Errorf("%v, %v", vector.Series, err)
	}
}
