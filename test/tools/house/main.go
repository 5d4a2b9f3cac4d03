// Command house measures the shape of the source tree: lines per directory, long functions,
// levels and upward references inside of the daemon, uses of unsafe, mutexes, and the depth of
// embedded structs. Run it in the root of the
// repository as "go run ./test/tools/house [DIR]"; DIR is another checkout to compare with.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
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
	h, err := measure(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
	h.report()
}

func measure(root string) (*house, error) {
	h := &house{files: token.NewFileSet(), rooms: map[string]int{}, packages: map[string][]*file{}}
	return h, h.read(root)
}

type house struct {
	files            *token.FileSet
	rooms            map[string]int
	packages         map[string][]*file
	production, test int
	long             []string
	// unsafe and mutexes count uses of package unsafe and of the types sync.Mutex and
	// sync.RWMutex.
	unsafe, mutexes int
}

// file is a production file. Its path is slash-separated and relative to the root.
type file struct {
	path   string
	syntax *ast.File
}

func (h *house) read(root string) error {
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
		return h.readFile(name, filepath.ToSlash(relative))
	})
}

func (h *house) readFile(name, relative string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(h.files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	lines := strings.Count(string(text), "\n")
	if isTest(relative) {
		h.test += lines
		return nil
	}
	h.readSelectors(syntax)
	h.production += lines
	h.rooms[path.Dir(relative)] += lines
	h.packages[path.Dir(relative)] = append(h.packages[path.Dir(relative)], &file{path: relative, syntax: syntax})
	for _, declaration := range syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := h.files.Position(function.End()).Line - h.files.Position(function.Pos()).Line + 1; n > longFunction {
			h.long = append(h.long, fmt.Sprintf("%s: %s, %d lines", relative, function.Name.Name, n))
		}
	}
	return nil
}

func isTest(relative string) bool {
	return strings.HasSuffix(relative, "_test.go") || strings.HasPrefix(relative, "test/") || strings.HasSuffix(path.Dir(relative), "test")
}

func (h *house) readSelectors(syntax *ast.File) {
	ast.Inspect(syntax, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok {
			switch name := pkg.Name + "." + selector.Sel.Name; {
			case pkg.Name == "unsafe":
				h.unsafe++
			case name == "sync.Mutex", name == "sync.RWMutex":
				h.mutexes++
			}
		}
		return true
	})
}

// embedding returns the maximum depth of embedded structs of the same package, and the longest
// chain of each package with a depth above one.
func (h *house) embedding() (depth int, chains []string) {
	for _, dir := range slices.Sorted(maps.Keys(h.packages)) {
		embedded := map[string][]string{}
		for _, f := range h.packages[dir] {
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

func (h *house) report() {
	fmt.Printf("production lines %d, test lines %d\n", h.production, h.test)
	fmt.Printf("functions over %d lines: %d\n", longFunction, len(h.long))
	for _, one := range h.long {
		fmt.Println("  " + one)
	}
	fmt.Printf("uses of unsafe: %d\n", h.unsafe)
	fmt.Printf("mutexes per 1,000 lines: %.2f\n", 1000*float64(h.mutexes)/float64(max(h.production, 1)))
	depth, chains := h.embedding()
	fmt.Printf("depth of embedded structs: %d\n", depth)
	for _, chain := range chains {
		fmt.Println("  " + chain)
	}
	floors, up := arrange(h.daemon())
	fmt.Printf("daemon: %d floors, %d arrows back up\n", floors, len(up))
	for _, arrow := range up {
		fmt.Println("  " + arrow)
	}
	fmt.Println("lines per directory:")
	for _, room := range slices.Sorted(maps.Keys(h.rooms)) {
		fmt.Printf("  %6d %s\n", h.rooms[room], room)
	}
}

// daemon returns which rooms of the daemon each of them names. A room is a file of
// the package itself, or a package below it.
func (h *house) daemon() map[string][]string {
	const room = "daemon"
	graph := map[string][]string{}
	add := func(from, to string) {
		if from != to && !slices.Contains(graph[from], to) {
			graph[from] = append(graph[from], to)
		}
	}
	below := func(name string) (string, bool) {
		_, rest, ok := strings.Cut(name, "/"+room+"/")
		first, _, _ := strings.Cut(rest, "/")
		return room + "/" + first, ok
	}
	for dir, files := range h.packages {
		for _, f := range files {
			from := f.path
			if dir != room {
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
	for _, use := range h.uses(room) {
		add(use[0], use[1])
	}
	return graph
}

func (h *house) uses(room string) [][2]string {
	var syntax []*ast.File
	byName := map[string]string{}
	for _, f := range h.packages[room] {
		syntax = append(syntax, f.syntax)
		byName[h.files.Position(f.syntax.Package).Filename] = f.path
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}}
	_, _ = config.Check(room, h.files, syntax, &info)
	var found [][2]string
	for identifier, object := range info.Uses {
		if !object.Pos().IsValid() {
			continue
		}
		from := byName[h.files.Position(identifier.Pos()).Filename]
		to := byName[h.files.Position(object.Pos()).Filename]
		if from != "" && to != "" && from != to {
			found = append(found, [2]string{from, to})
		}
	}
	slices.SortFunc(found, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	return slices.Compact(found)
}

type nothing struct{}

func (nothing) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

func arrange(graph map[string][]string) (floors int, up []string) {
	order := orderOf(graph)
	floor := map[string]int{}
	for _, room := range slices.Backward(order) {
		floor[room] = 1
		for _, to := range graph[room] {
			if slices.Index(order, to) > slices.Index(order, room) {
				floor[room] = max(floor[room], floor[to]+1)
			} else {
				up = append(up, room+" -> "+to)
			}
		}
		floors = max(floors, floor[room])
	}
	slices.Sort(up)
	return floors, up
}

// orderOf returns the nodes from top to bottom, by the greedy heuristic of Eades, Lin and
// Smyth for feedback arcs.
func orderOf(graph map[string][]string) []string {
	left := map[string]bool{}
	for room, tos := range graph {
		left[room] = true
		for _, to := range tos {
			left[to] = true
		}
	}
	var top, bottom []string
	for len(left) > 0 {
		out, in := map[string]int{}, map[string]int{}
		for room := range left {
			for _, to := range graph[room] {
				if left[to] {
					out[room]++
					in[to]++
				}
			}
		}
		rooms := slices.Sorted(maps.Keys(left))
		pick := func(fits func(room string) bool) (string, bool) {
			i := slices.IndexFunc(rooms, fits)
			if i < 0 {
				return "", false
			}
			return rooms[i], true
		}
		if sink, ok := pick(func(room string) bool { return out[room] == 0 }); ok {
			bottom = append(bottom, sink)
			delete(left, sink)
			continue
		}
		best := slices.MaxFunc(rooms, func(a, b string) int { return cmp.Compare(out[a]-in[a], out[b]-in[b]) })
		if source, ok := pick(func(room string) bool { return in[room] == 0 }); ok {
			best = source
		}
		top = append(top, best)
		delete(left, best)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}
