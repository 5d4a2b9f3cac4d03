// Command house measures the structure of the source tree: lines per directory, long functions,
// levels and cyclic references in the daemon, uses of unsafe and mutexes, and the depth of embedded
// structs. Run it in the root directory of the repository: go run ./test/tools/house [DIR]. DIR is
// another checkout to measure.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const longFunction = 60

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	t, err := measure(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	t.report()
}

func measure(root string) (*tree, error) {
	t := &tree{files: token.NewFileSet(), lines: map[string]lines{}, packages: map[string][]*file{}}
	return t, t.read(root)
}

// tree is the parsed source tree.
type tree struct {
	files    *token.FileSet
	lines    map[string]lines
	packages map[string][]*file
	// Test files, directories below test/ and packages whose name ends in "test" are counted as
	// tests.
	production, test lines
	long             []string
	// unsafe and mutexes are the numbers of uses of package unsafe, and of the types sync.Mutex
	// and sync.RWMutex.
	unsafe, mutexes int
}

// lines counts lines of Go. code is the number without comments and blank lines.
type lines struct{ all, code int }

func (l lines) plus(m lines) lines { return lines{l.all + m.all, l.code + m.code} }

func (l lines) String() string { return fmt.Sprintf("%d (%d of code)", l.all, l.code) }

// count counts the lines of a file.
func count(text []byte) lines {
	n := lines{all: strings.Count(string(text), "\n")}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for last := 0; ; {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return n
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // the scanner has inserted it
		}
		first := file.Line(at)
		end := first + strings.Count(literal, "\n")
		n.code += max(0, end-max(first, last+1)+1)
		last = end
	}
}

// file is a production file. Its path uses slashes and is relative to the root directory.
type file struct {
	path   string
	syntax *ast.File
}

func (t *tree) read(root string) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != root && (strings.HasPrefix(base, ".") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return t.readFile(name, filepath.ToSlash(relative))
	})
}

func (t *tree) readFile(name, relative string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	n := count(text)
	if isTest(relative) {
		t.test = t.test.plus(n)
		return nil
	}
	t.readSelectors(syntax)
	t.production = t.production.plus(n)
	t.lines[path.Dir(relative)] = t.lines[path.Dir(relative)].plus(n)
	t.packages[path.Dir(relative)] = append(t.packages[path.Dir(relative)], &file{path: relative, syntax: syntax})
	for _, declaration := range syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := t.files.Position(function.End()).Line - t.files.Position(function.Pos()).Line + 1; n > longFunction {
			t.long = append(t.long, fmt.Sprintf("%s: %s, %d lines", relative, function.Name.Name, n))
		}
	}
	return nil
}

func isTest(relative string) bool {
	return strings.HasSuffix(relative, "_test.go") || strings.HasPrefix(relative, "test/") || strings.HasSuffix(path.Dir(relative), "test")
}

// readSelectors counts the uses of unsafe and mutexes in a file.
func (t *tree) readSelectors(syntax *ast.File) {
	ast.Inspect(syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok {
			switch name := pkg.Name + "." + selector.Sel.Name; {
			case pkg.Name == "unsafe":
				t.unsafe++
			case name == "sync.Mutex", name == "sync.RWMutex":
				t.mutexes++
			}
		}
		return true
	})
}

// embedding returns the maximum depth of structs embedded in structs of the same package. It also
// returns the longest chain of each package in which the depth exceeds one.
func (t *tree) embedding() (depth int, chains []string) {
	for _, dir := range slices.Sorted(maps.Keys(t.packages)) {
		embedded := map[string][]string{}
		for _, f := range t.packages[dir] {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					embedded[spec.Name.Name] = embeddedIn(s)
				}
				return true
			})
		}
		var longest []string
		for _, name := range slices.Sorted(maps.Keys(embedded)) {
			if chain := longestChain(embedded, name); len(chain) > len(longest) {
				longest = chain
			}
		}
		depth = max(depth, len(longest)-1)
		if len(longest) > 2 {
			chains = append(chains, dir+": "+strings.Join(longest, " > "))
		}
	}
	return depth, chains
}

// embeddedIn returns the names of the embedded types that are in the same package.
func embeddedIn(s *ast.StructType) (names []string) {
	for _, field := range s.Fields.List {
		expr := field.Type
		if star, ok := expr.(*ast.StarExpr); ok {
			expr = star.X
		}
		if name, ok := expr.(*ast.Ident); ok && len(field.Names) == 0 {
			names = append(names, name.Name)
		}
	}
	return names
}

// longestChain returns the longest chain of embedded structs that starts with name.
func longestChain(embedded map[string][]string, name string) []string {
	var longest []string
	for _, next := range embedded[name] {
		if _, isStruct := embedded[next]; isStruct && next != name {
			if chain := longestChain(embedded, next); len(chain) > len(longest) {
				longest = chain
			}
		}
	}
	return append([]string{name}, longest...)
}

func (t *tree) report() {
	fmt.Printf("production lines %s, test lines %s\n", t.production, t.test)
	fmt.Printf("functions over %d lines: %d\n", longFunction, len(t.long))
	for _, one := range t.long {
		fmt.Println("  " + one)
	}
	fmt.Printf("uses of unsafe: %d\n", t.unsafe)
	fmt.Printf("mutexes per 1,000 lines: %.2f\n", 1000*float64(t.mutexes)/float64(max(t.production.all, 1)))
	depth, chains := t.embedding()
	fmt.Printf("depth of embedded structs: %d\n", depth)
	for _, chain := range chains {
		fmt.Println("  " + chain)
	}
	levels, up := arrange(t.daemon())
	fmt.Printf("daemon: %d levels, %d upward references\n", levels, len(up))
	for _, reference := range up {
		fmt.Println("  " + reference)
	}
	fmt.Println("lines per directory:")
	for _, dir := range slices.Sorted(maps.Keys(t.lines)) {
		fmt.Printf("  %6d %6d %s\n", t.lines[dir].all, t.lines[dir].code, dir)
	}
}

// daemon returns the references between the nodes of the daemon. A node is a file in package daemon
// or a package below it.
func (t *tree) daemon() map[string][]string {
	const root = "daemon"
	graph := map[string][]string{}
	add := func(from, to string) {
		if from != to && !slices.Contains(graph[from], to) {
			graph[from] = append(graph[from], to)
		}
	}
	below := func(name string) (string, bool) {
		_, rest, ok := strings.Cut(name, "/"+root+"/")
		first, _, _ := strings.Cut(rest, "/")
		return root + "/" + first, ok
	}
	for dir, files := range t.packages {
		for _, f := range files {
			from := f.path
			if dir != root {
				var ok bool
				if from, ok = below("/" + f.path); !ok {
					continue
				}
			}
			for _, imported := range f.syntax.Imports {
				if to, ok := below(strings.Trim(imported.Path.Value, `"`)); ok {
					add(from, to)
				}
			}
		}
	}
	for _, use := range t.uses(root) {
		add(use[0], use[1])
	}
	return graph
}

// uses returns pairs of files in a package: the first file uses a declaration in the second. It
// does not resolve references to other packages.
func (t *tree) uses(dir string) [][2]string {
	var syntax []*ast.File
	byName := map[string]string{}
	for _, f := range t.packages[dir] {
		syntax = append(syntax, f.syntax)
		byName[t.files.Position(f.syntax.Package).Filename] = f.path
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: noImporter{}, Error: func(error) {}}
	_, _ = config.Check(dir, t.files, syntax, &info) // unresolved references are to other packages
	var found [][2]string
	for identifier, object := range info.Uses {
		if !object.Pos().IsValid() {
			continue
		}
		from := byName[t.files.Position(identifier.Pos()).Filename]
		to := byName[t.files.Position(object.Pos()).Filename]
		if from != "" && to != "" && from != to {
			found = append(found, [2]string{from, to})
		}
	}
	slices.SortFunc(found, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return slices.Compact(found)
}

// noImporter is an importer that finds no packages.
type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// arrange assigns each node a level above all nodes that it references. It returns the number of
// levels, and the references that point upwards because of cycles. It selects these greedily:
// nodes with more outgoing than incoming references are placed at the top.
func arrange(graph map[string][]string) (levels int, up []string) {
	order := orderOf(graph)
	level := map[string]int{}
	for _, node := range slices.Backward(order) {
		level[node] = 1
		for _, to := range graph[node] {
			if slices.Index(order, to) > slices.Index(order, node) {
				level[node] = max(level[node], level[to]+1)
			} else {
				up = append(up, node+" -> "+to)
			}
		}
		levels = max(levels, level[node])
	}
	slices.Sort(up)
	return levels, up
}

// orderOf returns the nodes from top to bottom, ordered by the greedy heuristic of Eades, Lin and
// Smyth for the feedback arc set problem.
func orderOf(graph map[string][]string) []string {
	left := map[string]bool{}
	for node, tos := range graph {
		left[node] = true
		for _, to := range tos {
			left[to] = true
		}
	}
	var top, bottom []string
	for len(left) > 0 {
		out, in := map[string]int{}, map[string]int{}
		for node := range left {
			for _, to := range graph[node] {
				if left[to] {
					out[node]++
					in[to]++
				}
			}
		}
		nodes := slices.Sorted(maps.Keys(left))
		pick := func(fits func(node string) bool) (string, bool) {
			i := slices.IndexFunc(nodes, fits)
			if i < 0 {
				return "", false
			}
			return nodes[i], true
		}
		if sink, ok := pick(func(node string) bool { return out[node] == 0 }); ok {
			bottom = append(bottom, sink)
			delete(left, sink)
			continue
		}
		best := slices.MaxFunc(nodes, func(a, b string) int { return cmp.Compare(out[a]-in[a], out[b]-in[b]) })
		if source, ok := pick(func(node string) bool { return in[node] == 0 }); ok {
			best = source
		}
		top = append(top, best)
		delete(left, best)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}
