package nomad

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-bexpr"

	"github.com/hpad/hpad/targets"
)

// pass returns the documents that a filter accepts, as Nomad does. A field that the
// documents lack is an error.
func pass(expression string, documents []map[string]any) ([]map[string]any, error) {
	if expression == "" {
		return documents, nil
	}
	filter, err := bexpr.CreateEvaluator(expression)
	if err != nil {
		return nil, fmt.Errorf("failed to read filter expression: %w", err)
	}
	passed := []map[string]any{}
	for _, document := range documents {
		passes, err := filter.Evaluate(document)
		if err != nil {
			return nil, err
		}
		if passes {
			passed = append(passed, document)
		}
	}
	return passed, nil
}

// oddIDs are IDs of jobs that Nomad accepts and that are special in its filters.
var oddIDs = []string{
	`"`, `a"b`, `a\"b`, `a\b`, "a`b", "a`\"b", "a\nb", "a\rb", "a\x1b[2Jb", "é", "/a/b", "/a~1b", `"or"ID!="`, "`or`ID!=`", "\ufeffa", "\u202eb",
	strings.Repeat("x", 33_000),
}

// TestFilterOddIDs reads jobs with special IDs beside ordinary ones: each reading is
// right, and no filter is long.
func TestFilterOddIDs(t *testing.T) {
	for name, ordinary := range map[string]int{"few": 1, "many": maxFiltered + 1} {
		t.Run(name, func(t *testing.T) {
			i := newImitation(t)
			ids := append([]string{}, oddIDs...)
			for n := range ordinary {
				ids = append(ids, fmt.Sprintf("job-%d", n))
			}
			for n, id := range ids {
				i.add(id, n+1).queued = 1
			}
			i.add("other", 1)
			f := newFleet(t, i)
			var refs []targets.Ref
			for _, id := range ids {
				refs = append(refs, ref((&Target{Job: id, Group: "app"}).Name()))
			}
			check := func(refs []targets.Ref, ids []string, first int) {
				t.Helper()
				readings, err := f.Snapshot(t.Context(), refs)
				if err != nil {
					t.Fatal(err)
				}
				for n, id := range ids {
					r := readings[refs[n]]
					if want := first + n + 1; r.Err != nil || int(r.SpecReplicas) != want || len(r.Instances) != want {
						t.Errorf("job %.20q: count %d with %d instances, %v, want %d", id, r.SpecReplicas, len(r.Instances), r.Err, want)
					}
				}
			}
			check(refs, ids, 0)
			for n := range refs {
				check(refs[n:n+1], ids[n:n+1], n)
			}
			readings, err := f.Snapshot(t.Context(), []targets.Ref{ref(`ot"her/app`), ref("other/app")})
			if err != nil || !errors.Is(readings[ref(`ot"her/app`)].Err, targets.ErrTargetNotFound) || readings[ref("other/app")].Err != nil {
				t.Errorf("a job that does not exist beside one that does: %v, %v", readings, err)
			}
			for path, longest := range i.longest {
				if longest > 8<<10 {
					t.Errorf("a filter of %s has %d bytes in the URL", path, longest)
				}
			}
		})
	}
}

func TestLiteral(t *testing.T) {
	for _, text := range append([]string{"web", ""}, oddIDs...) {
		written, ok := literal(text)
		if !ok {
			continue
		}
		passed, err := pass("ID == "+written, []map[string]any{{"ID": text}, {"ID": text + "x"}, {"ID": "other"}})
		if err != nil || len(passed) != 1 || passed[0]["ID"] != text {
			t.Errorf("%q written as %s matches %v, %v", text, written, passed, err)
		}
	}
	for _, text := range []string{"web", "é", `a"b`, `a\b`, "a`b", "/a/b"} {
		if _, ok := literal(text); !ok {
			t.Errorf("%q has no literal", text)
		}
	}
}
