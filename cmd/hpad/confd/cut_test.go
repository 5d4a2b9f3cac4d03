package confd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hpad/hpad/cmd/hpad/confd"
)

func TestCut(t *testing.T) {
	for _, test := range []struct {
		name, text, rest string
		gone, kept       []confd.Lines
		bare, empty      bool
	}{
		{
			name: "all there is", bare: true, empty: true,
			text: "\n[autoscalers.web]\nmax_replicas = 3\n\n# up quickly\n[autoscalers.web.behavior.scale_up]\n",
			rest: "\n",
			gone: []confd.Lines{{First: 2, Last: 6}},
		},
		{
			name: "notes above", bare: true, empty: true,
			text: "# A note.\n#   Another note.\n[autoscalers.web]\nmax_replicas = 3\n",
			rest: "",
			gone: []confd.Lines{{First: 1, Last: 4}},
		},
		{
			name: "notes between others", bare: true,
			text: "# A note.\n\n# Another note.\n# Of a person.\n# A note.\n[autoscalers.web]\nmax_replicas = 3\n\n# Of the file.\n",
			rest: "# A note.\n\n# Another note.\n# Of a person.\n\n# Of the file.\n",
			gone: []confd.Lines{{First: 5, Last: 7}}, kept: []confd.Lines{{First: 3, Last: 4}},
		},
		{
			name: "alone", bare: true,
			text: "# Of the shop.\n[autoscalers.web]\nmax_replicas = 3\n\n[[autoscalers.web.metrics]]\ntype = \"Resource\"\n# query = \"x\"\n",
			rest: "# Of the shop.\n",
			gone: []confd.Lines{{First: 2, Last: 7}}, kept: []confd.Lines{{First: 1, Last: 1}},
		},
		{
			name: "between others",
			text: "[autoscalers.a]\nmax_replicas = 1 # one\n\n# The second.\n[autoscalers.web]\nmax_replicas = 2\n\n# down slowly\n[autoscalers.web.behavior.scale_down]\nselect_policy = \"Min\"\n\n\n# The third.\n[autoscalers.c]\nmax_replicas = 3\n",
			rest: "[autoscalers.a]\nmax_replicas = 1 # one\n\n# The second.\n\n\n# The third.\n[autoscalers.c]\nmax_replicas = 3\n",
			gone: []confd.Lines{{First: 5, Last: 10}}, kept: []confd.Lines{{First: 4, Last: 4}},
		},
		{
			name: "no comment above",
			text: "[autoscalers.a]\nmax_replicas = 1\n\n[autoscalers.web]\nmax_replicas = 2\n\n[autoscalers.c]\nmax_replicas = 3\n",
			rest: "[autoscalers.a]\nmax_replicas = 1\n\n[autoscalers.c]\nmax_replicas = 3\n",
			gone: []confd.Lines{{First: 4, Last: 5}},
		},
		{
			name: "scattered",
			text: "[autoscalers.web]\nmax_replicas = 2\n[fleets.x]\nkind = \"nomad\"\n[autoscalers.web.target]\nfleet = \"x\"\n",
			rest: "[fleets.x]\nkind = \"nomad\"\n",
			gone: []confd.Lines{{First: 1, Last: 2}, {First: 5, Last: 6}},
		},
		{
			name: "dotted keys",
			text: "autoscalers.web.max_replicas = 2\nautoscalers.a.max_replicas = 1\nautoscalers.web.min_replicas = 1\n",
			rest: "autoscalers.a.max_replicas = 1\n",
			gone: []confd.Lines{{First: 1, Last: 1}, {First: 3, Last: 3}},
		},
		{
			name: "inline table, quoted name, multi-line texts",
			text: "[autoscalers]\n\"shop.web\" = { max_replicas = 3, x = \"\"\"\n# no comment\n[fleets]\n\"\"\" }\nb = { max_replicas = 4 }\n",
			rest: "[autoscalers]\nb = { max_replicas = 4 }\n",
			gone: []confd.Lines{{First: 2, Last: 5}},
		},
		{
			name: "end without a line break",
			text: "[fleets.x]\nkind = \"nomad\"\r\n\r\n[autoscalers.web]\r\npolicies = [\r\n  1, # one\r\n]",
			rest: "[fleets.x]\nkind = \"nomad\"\r\n\r\n",
			gone: []confd.Lines{{First: 4, Last: 7}},
		},
		{
			name: "names that begin alike",
			text: "[autoscalers.web-api]\nmax_replicas = 1\n[autoscalers.web]\nmax_replicas = 2\n[autoscalers.\"web.x\"]\nmax_replicas = 3\n",
			rest: "[autoscalers.web-api]\nmax_replicas = 1\n[autoscalers.\"web.x\"]\nmax_replicas = 3\n",
			gone: []confd.Lines{{First: 3, Last: 4}},
		},
		{
			name: "a text that ends like a comment",
			text: "[fleets.x]\nkind = '''\n# nomad'''\n[autoscalers.web]\nx = '''\n# no comment'''\n[fleets.y]\nkind = \"nomad\"\n",
			rest: "[fleets.x]\nkind = '''\n# nomad'''\n[fleets.y]\nkind = \"nomad\"\n",
			gone: []confd.Lines{{First: 4, Last: 6}},
		},
		{
			name: "what is not equal to itself",
			text: "x = nan\n[autoscalers.web]\nmax_replicas = 3\ntolerance = nan\n[autoscalers.b]\nt = [{ u = -nan }, 1.5]\n[[autoscalers.b.m]]\nv = nan\n",
			rest: "x = nan\n[autoscalers.b]\nt = [{ u = -nan }, 1.5]\n[[autoscalers.b.m]]\nv = nan\n",
			gone: []confd.Lines{{First: 2, Last: 4}},
		},
		{
			name: "byte order mark",
			text: "\xef\xbb\xbf# x\n[fleets.x]\nkind = \"nomad\"\n[autoscalers.web]\nmax_replicas = 3\n",
			rest: "\xef\xbb\xbf# x\n[fleets.x]\nkind = \"nomad\"\n",
			gone: []confd.Lines{{First: 4, Last: 5}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := "web"
			if strings.Contains(test.name, "quoted") {
				name = "shop.web"
			}
			got, err := confd.Cut([]byte(test.text), name, "A note.", "Another note.")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.rest, string(got.Rest)); diff != "" {
				t.Errorf("rest (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([][]confd.Lines{test.gone, test.kept}, [][]confd.Lines{got.Gone, got.Kept}); diff != "" {
				t.Errorf("lines gone and kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.gone, confd.Find([]byte(test.text), name)); diff != "" && !strings.Contains(test.name, "notes") {
				t.Errorf("Find (-want +got):\n%s", diff)
			}
			if got.Bare != test.bare || got.Empty != test.empty {
				t.Errorf("bare: %v, empty: %v, want %v and %v", got.Bare, got.Empty, test.bare, test.empty)
			}
		})
	}
}

func TestCutRefuses(t *testing.T) {
	inline := []byte("autoscalers = { web = { max_replicas = 3 }, b = { max_replicas = 1 } }\n")
	if holds, err := confd.Holds(inline, "web"); err != nil || !holds {
		t.Fatalf("Holds: %v, %v", holds, err)
	}
	if got, err := confd.Cut(inline, "web"); !errors.Is(err, confd.ErrEntangled) {
		t.Errorf("Cut answers %+v, %v", got, err)
	}
	if _, err := confd.Cut([]byte("[autoscalers"), "web"); err == nil || errors.Is(err, confd.ErrEntangled) {
		t.Errorf("Cut of what is no TOML answers %v", err)
	}
	if holds, err := confd.Holds([]byte("[autoscalers.web-api]\n"), "web"); err != nil || holds {
		t.Errorf("Holds of another name: %v, %v", holds, err)
	}
}

// TestCutKeepsTheRest cuts each of some autoscalers out of a text that is laid out
// at random, and holds that all other lines are left, in order.
func TestCutKeepsTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text, others strings.Builder
		n := rapid.IntRange(1, 4).Draw(t, "autoscalers")
		for i := range n {
			for range rapid.IntRange(0, 3).Draw(t, "pieces") {
				to := []*strings.Builder{&text}
				if i > 0 {
					to = append(to, &others)
				}
				piece := rapid.SampledFrom([]string{
					"[autoscalers.n%d%s]\nmax_replicas = 3\n",
					"\n[[autoscalers.n%d.metrics%s]]\ntype = \"Resource\" # cpu\nselect = { a = \"]\" }\n",
					"[autoscalers.n%d.behavior%s]\n",
				}).Draw(t, "piece")
				piece = fmt.Sprintf(piece, i, "")
				if strings.HasPrefix(piece, "[") && strings.Contains(text.String(), strings.SplitAfter(piece, "\n")[0]) {
					continue // a table may be defined once
				}
				for _, b := range to {
					b.WriteString(piece)
				}
			}
		}
		holds, err := confd.Holds([]byte(text.String()), "n0")
		if err != nil || !holds {
			t.Skip("a text that is no TOML, or without n0")
		}
		got, err := confd.Cut([]byte(text.String()), "n0")
		if err != nil {
			t.Fatalf("%v of\n%s", err, text.String())
		}
		strip := func(s string) string { return strings.ReplaceAll("\n"+s, "\n\n", "\n") }
		if diff := cmp.Diff(strip(others.String()), strip(string(got.Rest))); diff != "" {
			t.Errorf("rest (-want +got):\n%s\nof\n%s", diff, text.String())
		}
	})
}

// FuzzCut holds that of any TOML either nothing is cut, or what is left has
// everything but the autoscaler, in lines that were there, in order.
func FuzzCut(f *testing.F) {
	for _, text := range []string{
		"# a\n[autoscalers.web]\nx = 1\n\n[autoscalers.b]\ny = [\n 1,\n]\n",
		"autoscalers.web = { a = 1 }\nautoscalers.b.c = '''\n# d\n'''\n",
		"[autoscalers]\nweb.a = 1\n\"web\".b = 2\n[fleets.x]\n[[autoscalers.web.metrics]]\nt = \"\"\"\n[x]\n\"\"\"\n",
		"autoscalers = { web = { a = 1 }, b = { c = 2 } }",
		"[ autoscalers . 'web' ]\r\na = 1979-05-27T07:32:00Z # c\r\n# d\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if holds, err := confd.Holds(text, "web"); err != nil || !holds {
			return
		}
		cutting, err := confd.Cut(text, "web")
		if err != nil {
			if !errors.Is(err, confd.ErrEntangled) {
				t.Errorf("Cut: %v", err)
			}
			return
		}
		if holds, err := confd.Holds(cutting.Rest, "web"); err != nil || holds {
			t.Errorf("what is left holds it: %v, %v", holds, err)
		}
		left := strings.SplitAfter(string(text), "\n")
		for _, line := range strings.SplitAfter(string(cutting.Rest), "\n") {
			for len(left) > 0 && left[0] != line {
				left = left[1:]
			}
			if len(left) == 0 && line != "" {
				t.Fatalf("the line %q was not there", line)
			}
			if len(left) > 0 {
				left = left[1:]
			}
		}
	})
}
