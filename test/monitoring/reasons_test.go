package monitoring

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// otherWords are constants that are called as what they hold, and are no reasons.
var otherWords = map[string]string{
	"CapacityType":     "a word of Nomad's evaluations",
	"InvocationID":     "a property of systemd's",
	"LoadState":        "a property of systemd's",
	"MemoryCurrent":    "a property of systemd's",
	"OutOfCapacity":    "a state of Azure's",
	"WeightedCapacity": "a setting of AWS'",
}

// TestReasonsAreDocumented wants every reason in the docs that a condition or
// event may have, found in the code: a word that is a reason's constant, in a
// literal that has the field Reason, in a call that takes a reason, or answered by a
// function that chooses one.
func TestReasonsAreDocumented(t *testing.T) {
	pages := documentation(t)
	found := map[string]string{}
	for _, directory := range []string{"../../policy", "../../daemon", "../../targets"} {
		err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				if entry != nil && (entry.Name() == "testdata" || entry.Name() == "targettest") {
					return filepath.SkipDir
				}
				return err
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				return collectReasons(path, found)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, sure := range []string{"FailedGetScale", "DeploymentActive", "ImplausibleReading", "ComposeFileChanged", "PlatformMax", "FailedGetPodsMetric", "Resolved"} {
		if found[sure] == "" {
			t.Errorf("%s is a reason, and was not found in the code", sure)
		}
	}
	for reason, where := range found {
		if !strings.Contains(pages, "`"+reason+"`") {
			t.Errorf("%s: docs does not tell of the reason `%s`; a page of its kind, or the table of docs/operations.md, should", where, reason)
		}
	}
	for word := range otherWords {
		if strings.Contains(pages, "| `"+word+"`") {
			t.Errorf("docs tells of %s, which is no reason", word)
		}
	}
}

// documentation is the text of all pages.
func documentation(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("glob docs: %q, %v", files, err)
	}
	var pages strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	return pages.String()
}

// reasonWord is what reasons look like: at least two words in one.
var reasonWord = regexp.MustCompile(`^[A-Z][a-z]+([A-Z]+[a-z]*)+$`)

// takesReason are the functions that are given a reason.
var takesReason = regexp.MustCompile(`^(set|setCondition|boundByPlatform|ableToScale|held|hold|reasoned|warn|tell)$`)

// collectReasons adds the reasons of a file, each with where it is.
func collectReasons(path string, found map[string]string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	add := func(expression ast.Expr) {
		if word := literal(expression); word != "" && otherWords[word] == "" {
			found[word] = strings.TrimPrefix(path, "../../")
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ValueSpec:
			for i, value := range node.Values {
				word := literal(value)
				if i < len(node.Names) && (strings.EqualFold(word, node.Names[i].Name) || strings.HasSuffix(node.Names[i].Name, "Reason") || node.Names[i].Name == "noticeResolved") {
					add(value)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := node.Key.(*ast.Ident); ok && (key.Name == "Reason" || key.Name == "reason") {
				add(node.Value)
			}
		case *ast.CallExpr:
			if takesReason.MatchString(called(node)) {
				for _, argument := range node.Args {
					add(argument)
				}
			}
		case *ast.FuncDecl:
			if strings.HasSuffix(node.Name.Name, "Reason") && node.Body != nil {
				ast.Inspect(node.Body, func(inner ast.Node) bool {
					if answer, ok := inner.(*ast.ReturnStmt); ok {
						for _, result := range answer.Results {
							add(result)
						}
					}
					return true
				})
			}
		}
		return true
	})
	return nil
}

// literal returns the text of a string that looks like a reason; "" for anything
// else.
func literal(expression ast.Expr) string {
	basic, ok := expression.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(basic.Value)
	if err != nil || text != "Resolved" && !reasonWord.MatchString(text) {
		return ""
	}
	return text
}

// called returns the name of the function that is called.
func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		return function.Sel.Name
	}
	return ""
}
