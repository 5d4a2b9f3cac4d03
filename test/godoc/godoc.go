// Package godoc reads the comments of Go types and constants, for documentation that tests generate.
package godoc

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// module is the import path of the repository.
const module = "github.com/hpad/hpad/"

// Package contains the declarations of a package. Each comment is one line.
type Package struct {
	Structs map[string]*ast.StructType
	// Comments maps the names of types and constants to their comments.
	Comments map[string]string
	// Constants maps the names of string types to their constants, in the order of the source.
	Constants map[string][]Constant

	typed []typedConstant
	// values maps the names of constants to their strings.
	values map[string]string
}

type typedConstant struct {
	of, name string
	value    ast.Expr
}

// Constant is a string constant.
type Constant struct{ Name, Value string }

// Load parses the package with an import path in the repository, whose directory is root.
func Load(root, path string) (*Package, error) {
	files, err := filepath.Glob(filepath.Join(root, strings.TrimPrefix(path, module), "*.go"))
	if err != nil || len(files) == 0 || !strings.HasPrefix(path, module) {
		return nil, fmt.Errorf("the source of %q is not in this repository: %w", path, err)
	}
	p := &Package{Structs: map[string]*ast.StructType{}, Comments: map[string]string{}, Constants: map[string][]Constant{}, values: map[string]string{}}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse the package: %w", err)
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				for _, spec := range general.Specs {
					p.add(spec, general.Doc)
				}
			}
		}
	}
	p.resolve()
	return p, nil
}

func (p *Package) add(spec ast.Spec, of *ast.CommentGroup) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		p.Comments[spec.Name.Name] = OneLine(cmp.Or(spec.Doc.Text(), of.Text()))
		if declared, ok := spec.Type.(*ast.StructType); ok {
			p.Structs[spec.Name.Name] = declared
		}
	case *ast.ValueSpec:
		if len(spec.Values) != 1 {
			return
		}
		name := spec.Names[0].Name
		p.Comments[name] = OneLine(spec.Doc.Text())
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			p.values[name], _ = strconv.Unquote(literal.Value) // the parser has accepted it
		}
		if typed, ok := spec.Type.(*ast.Ident); ok {
			p.typed = append(p.typed, typedConstant{typed.Name, name, spec.Values[0]})
		}
	}
}

// resolve sets Constants. The value of a constant can be another constant.
func (p *Package) resolve() {
	for _, c := range p.typed {
		value, known := p.values[c.name]
		if of, ok := c.value.(*ast.Ident); ok {
			value, known = p.values[of.Name]
		}
		if known {
			p.Constants[c.of] = append(p.Constants[c.of], Constant{c.name, value})
		}
	}
}

// OneLine returns a comment without line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// lists matches a list of names at the beginning of a comment.
var lists = regexp.MustCompile(`^([A-Z]\w*, )*[A-Z]\w* and [A-Z]\w* `)

// part matches the beginning of a sentence or a clause about a field.
var part = regexp.MustCompile(`(?:\. |, and |, |; |^)([A-Z]\w*) (?:is|are|contains|lists|counts|has|explains|means) |(?: and )([A-Z]\w*) is `)

// FieldComments returns the text about each field of a struct. The comment of a field can also
// describe later fields that have no comment.
func FieldComments(declared *ast.StructType) map[string]string {
	texts, own := map[string]string{}, map[string]bool{}
	for _, field := range declared.Fields.List {
		for _, name := range field.Names {
			own[name.Name] = field.Doc != nil
		}
	}
	for _, field := range declared.Fields.List {
		if field.Doc == nil || len(field.Names) == 0 {
			continue
		}
		first, text, at := field.Names[0].Name, strings.TrimSuffix(OneLine(field.Doc.Text()), "."), 0
		about := first
		for _, found := range part.FindAllStringSubmatchIndex(text, -1) {
			start := max(found[2], found[4])
			name, _, _ := strings.Cut(text[start:], " ")
			if has, known := own[name]; found[0] > 0 && known && !has {
				texts[about] += text[at:found[0]] + ". "
				about, at = name, start
			}
		}
		texts[about] += text[at:] + ". "
		for _, other := range strings.FieldsFunc(lists.FindString(text), func(r rune) bool { return r == ',' || r == ' ' }) {
			if has, known := own[other]; known && !has {
				texts[other] = texts[first] + texts[other]
			}
		}
	}
	return texts
}

// Sentence removes the name and the verb from the beginning of a comment.
func Sentence(name, comment string) string {
	comment = strings.TrimSpace(comment)
	rest, found := strings.CutPrefix(comment, name+" ")
	if !found || strings.HasPrefix(rest, "and ") {
		return comment
	}
	if after, ok := strings.CutPrefix(rest, "reports whether "); ok {
		return "whether " + after
	}
	for _, verb := range []string{"is ", "are ", "contains ", "lists ", "means that ", "describes "} {
		if after, ok := strings.CutPrefix(rest, verb); ok {
			return after
		}
	}
	return rest
}
