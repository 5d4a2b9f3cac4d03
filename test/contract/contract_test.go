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

	"github.com/hpad/hpad/daemon/kinds"
	"github.com/hpad/hpad/targets/targettest"
)

// TestEveryKind checks that the package of each kind of fleet and source runs its contract suite. It
// also logs the table of the fleets' contract.
func TestEveryKind(t *testing.T) {
	for _, name := range names() {
		if !runs(t, filepath.Join("targets", name), "targettest.Run") {
			t.Errorf("the tests of targets/%s do not run the contract suite with a targettest.Kind whose Of is &Kind", name)
		}
	}
	for name := range kinds.Sources {
		if !runs(t, filepath.Join("sources", name), "sourcetest.Run") {
			t.Errorf("the tests of sources/%s do not run the contract suite of package sourcetest", name)
		}
	}
	t.Logf("the contract:\n%s", written(targettest.Table))
}

func names() []string { return slices.Sorted(maps.Keys(kinds.Fleets)) }

// runs reports whether the tests in a directory call a suite; if it is the suite of fleets, with the
// Kind of the package.
func runs(t *testing.T, directory, suite string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", directory, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	ran, of := false, suite != "targettest.Run"
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				ran = ran || types.ExprString(n.Fun) == suite
			case *ast.KeyValueExpr:
				of = of || types.ExprString(n.Key) == "Of" && types.ExprString(n.Value) == "&Kind"
			}
			return true
		})
	}
	return ran && of
}

// written formats the table, followed by the reasons for excluded rows.
func written(table []targettest.Row) string {
	var b, notes strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(cells ...string) { _, _ = columns.Write([]byte(strings.Join(cells, "\t") + "\n")) }
	line(append([]string{"situation"}, names()...)...)
	for _, row := range table {
		cells := []string{row.Situation}
		for _, kind := range names() {
			cell := "yes"
			if why, without := kinds.Fleets[kind].Without[row.Situation]; without {
				cell = "-"
				notes.WriteString(row.Situation + ", " + kind + ": " + why + "\n")
			}
			cells = append(cells, cell)
		}
		line(cells...)
	}
	_ = columns.Flush()
	return b.String() + notes.String()
}
