// Package godoc reads the comments of Go types and constants, for documentation that tests generate.
package godoc

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
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
