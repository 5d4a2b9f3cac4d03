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

// named matches a reference to a test: its directory, its function and, after a slash, a case. A
// reference that has only a case is to the preceding test, or to the test in the table header.
var named = regexp.MustCompile("`(?:((?:test|daemon|policy|settings|sources|targets)[\\w/]*) (Test\\w+))?(?:/([^`]+))?`")

// rounds is the file that contains the cases shared by tests in several directories.
const rounds = "../../test/internal/members/rounds.go"

// tests contains the test functions and string literals of a directory.
type tests struct {
	functions, texts map[string]bool
	// cases lists the case names in the tables of faults.
	cases []string
}

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

// TestReliability checks that every test in docs/reliability.md exists, that each row names a
// test, and that the page lists all tests of test/faults.
func TestReliability(t *testing.T) {
	page := read(t, "../../docs/reliability.md")
	known := map[string]tests{}
	var head struct{ dir, function string } // the test in the table header
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
			t.Errorf("docs/reliability.md has no test in: %s", line)
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
			// The name of a case may be the concatenation of two literals.
			if !known[dir].functions[function] || one != "" && !known[dir].texts[one] && !joined(known[dir].texts, one) {
				t.Errorf("docs/reliability.md has %s of %s, which does not exist", match[0], function)
			}
		}
	}
	faults := known["test/faults"]
	for function, is := range faults.functions {
		if is && !strings.Contains(page, "`test/faults "+function) {
			t.Errorf("docs/reliability.md lacks %s of test/faults", function)
		}
	}
	if len(faults.cases) == 0 {
		t.Error("test/faults has no tables of faults")
	}
	for _, one := range faults.cases {
		if !strings.Contains(page, "/"+one+"`") {
			t.Errorf("docs/reliability.md lacks the case %q of test/faults", one)
		}
	}
}

// joined reports whether one is the concatenation of two of the texts.
func joined(texts map[string]bool, one string) bool {
	for n := range one {
		if texts[one[:n]] && texts[one[n:]] {
			return true
		}
	}
	return false
}
