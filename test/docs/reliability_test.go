package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// named is a test on the page: its directory, and after a slash its case. A case alone is
// of the test before it, or of the one in the table's head.
var named = regexp.MustCompile("`(?:((?:test|daemon|policy|sources|targets)[\\w/]*) (Test\\w+))?(?:/([^`]+))?`")

// rounds has the cases that tests of several directories have in common.
const rounds = "../../test/internal/members/rounds.go"

// tests are what a directory has of tests.
type tests struct {
	functions, texts map[string]bool
	// cases are the first texts of what the tables of faults have.
	cases []string
}

// readTests reads the tests of a directory.
func readTests(t *testing.T, dir string) tests {
	t.Helper()
	found := tests{functions: map[string]bool{}, texts: map[string]bool{}}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of %s: %q, %v", dir, files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found.functions[n.Name.Name] = strings.HasPrefix(n.Name.Name, "Test") && n.Name.Name != "TestMain"
			case *ast.BasicLit:
				found.add(n)
			case *ast.ValueSpec:
				if strings.HasSuffix(n.Names[0].Name, "Faults") {
					found.cases = append(found.cases, firstTexts(n.Values[0].(*ast.CompositeLit))...)
				}
			}
			return true
		})
	}
	file, err := parser.ParseFile(token.NewFileSet(), rounds, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok {
			found.add(text)
		}
		return true
	})
	return found
}

// add adds a text.
func (t *tests) add(literal *ast.BasicLit) {
	if text, err := strconv.Unquote(literal.Value); err == nil {
		t.texts[text] = true
	}
}

func firstTexts(table *ast.CompositeLit) (texts []string) {
	for _, row := range table.Elts {
		if text, err := strconv.Unquote(row.(*ast.CompositeLit).Elts[0].(*ast.BasicLit).Value); err == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// TestReliability wants every test and case that docs/reliability.md names to be there,
// each row to name one, and each of test/faults to be named.
func TestReliability(t *testing.T) {
	page := read(t, "../../docs/reliability.md")
	known := map[string]tests{}
	var head struct{ dir, function string } // of the table
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		fault, _, _ := strings.Cut(line, " | ")
		shown := named.FindAllStringSubmatch(fault, -1)
		if strings.HasPrefix(line, "| fault") {
			head.dir, head.function = "", ""
			for _, match := range shown {
				head.dir, head.function = match[1], match[2]
			}
			continue
		}
		if len(shown) == 0 {
			t.Errorf("docs/reliability.md names no test of: %s", line)
		}
		dir, function := head.dir, head.function
		for _, match := range shown {
			if match[1] != "" {
				dir, function = match[1], match[2]
			}
			one := match[3]
			if _, ok := known[dir]; !ok {
				known[dir] = readTests(t, dir)
			}
			// A case may be put together, as "source answers " and what it answers.
			if !known[dir].functions[function] || one != "" && !known[dir].texts[one] && !joined(known[dir].texts, one) {
				t.Errorf("docs/reliability.md names %s of %s, which is not there", match[0], function)
			}
		}
	}
	faults := known["test/faults"]
	for function, is := range faults.functions {
		if is && !strings.Contains(page, "`test/faults "+function) {
			t.Errorf("docs/reliability.md does not name %s of test/faults", function)
		}
	}
	if len(faults.cases) == 0 {
		t.Error("test/faults has no tables of faults")
	}
	for _, one := range faults.cases {
		if !strings.Contains(page, "/"+one+"`") {
			t.Errorf("docs/reliability.md does not name the case %q of test/faults", one)
		}
	}
}

// joined reports whether two texts together are one.
func joined(texts map[string]bool, one string) bool {
	for n := range one {
		if texts[one[:n]] && texts[one[n:]] {
			return true
		}
	}
	return false
}
