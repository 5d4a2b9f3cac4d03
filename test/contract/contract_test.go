package contract

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/hpad/hpad/daemon"
	"github.com/hpad/hpad/targets/targettest"
)

// TestEveryKind: each kind that hpad comes with is in the table, and its package
// runs the suite under the kind's name, which holds it to all rows. The log has the
// table.
func TestEveryKind(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(daemon.BuiltIn().Fleets)) {
		if !slices.Contains(targettest.Kinds, kind) {
			t.Errorf("kind %q is not among targettest.Kinds: add it, and to rows of targettest.Table why it cannot be in their situations", kind)
		}
	}
	for _, kind := range targettest.Kinds {
		if named := runs(t, kind); !slices.Contains(named, kind) {
			t.Errorf("the tests of targets/%s run the contract suite as %q, want a targettest.Kind with Name: %q", kind, named, kind)
		}
	}
	t.Logf("the contract:\n%s", written(targettest.Table))
}

// runs answers the texts of fields called Name in the tests of a kind's package that
// run the suite: the kind's among them.
func runs(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "targets", kind, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ran := false
		var names []string
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				ran = ran || types.ExprString(n.Fun) == "targettest.Run"
			case *ast.KeyValueExpr:
				if value, ok := n.Value.(*ast.BasicLit); ok && types.ExprString(n.Key) == "Name" {
					names = append(names, strings.Trim(value.Value, `"`))
				}
			}
			return true
		})
		if ran {
			all = append(all, names...)
		}
	}
	return all
}

// written is the table for people, with what kinds cannot be in below it.
func written(table []targettest.Row) string {
	var b, notes strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = columns.Write([]byte(strings.Join(cells, "\t") + "\n")) }
	line(append([]string{"situation"}, targettest.Kinds...)...)
	for _, row := range table {
		cells := []string{row.Situation}
		for _, kind := range targettest.Kinds {
			cell := "yes"
			if why, without := row.Without[kind]; without {
				cell = "-"
				notes.WriteString(row.Situation + ", " + kind + ": " + why + "\n")
			}
			cells = append(cells, cell)
		}
		line(cells...)
	}
	_ = columns.Flush() // a Builder takes everything
	return b.String() + notes.String()
}
