package guard

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// boom panics with a value that is not a *Panic.
func boom() { panic("boom") }

func TestGroup(t *testing.T) {
	g, ctx := WithContext(t.Context())
	g.Go(func() error { <-ctx.Done(); return ctx.Err() })
	g.Go(func() error { boom(); return nil })
	err := Call(g.Wait)
	caught, ok := errors.AsType[*Panic](err)
	if !ok || !strings.Contains(string(caught.Stack), "guard.boom") {
		t.Errorf("Wait() with a part that panicked = %v, want a panic with the stack of the part", err)
	}
	var other Group
	want := errors.New("failed")
	other.Go(func() error { return want })
	if err := Call(other.Wait); !errors.Is(err, want) {
		t.Errorf("Wait() = %v, want %v", err, want)
	}
}

// TestEach checks that the results have the order of the items, and that a panic reaches the caller.
func TestEach(t *testing.T) {
	errs := Each(2, []int{0, 1, 2, 3}, func(i, item int) error {
		if item%2 == 1 {
			return fmt.Errorf("%d is %d", i, item)
		}
		return nil
	})
	if len(errs) != 4 || errs[0] != nil || errs[2] != nil || errs[1].Error() != "1 is 1" || errs[3].Error() != "3 is 3" {
		t.Errorf("Each() = %v, want errors for 1 and 3", errs)
	}
	defer func() {
		if recover() == nil {
			t.Error("Each() hides a panic")
		}
	}()
	Each(1, []int{0}, func(int, int) error { boom(); return nil })
}

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan *Panic, 10)
		OnPanic(func(p *Panic) { reports <- p })
		defer report.Store(nil)
		var tasks Tasks
		tasks.Go(boom)
		tasks.Wait()
		Go(boom)
		AfterFunc(time.Second, boom)
		time.Sleep(2 * time.Second)
		if got := len(reports); got != 3 {
			t.Errorf("%d panics were reported, want 3", got)
		}
	})
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		OnPanic(func(*Panic) {})
		defer report.Store(nil)
		calls, began := 0, time.Now()
		Loop(t.Context(), func() {
			if calls++; calls < 10 {
				boom()
			}
		})
		if took := time.Since(began); calls != 10 || took != (1+2+4+8+16+32+60+60+60)*time.Second {
			t.Errorf("Loop made %d calls in %v", calls, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		Loop(ctx, boom)
	})
}

// TestEveryGoroutine checks that the code outside this package starts no goroutine without guard.
func TestEveryGoroutine(t *testing.T) {
	forbidden := map[string]string{
		"errgroup.Group": "guard.Group", "errgroup.WithContext": "guard.WithContext",
		"sync.WaitGroup": "guard.Group or guard.Tasks", "time.AfterFunc": "guard.AfterFunc",
	}
	counters := map[string]bool{"sources/embedded/embedded.go": true} // counts queries and starts no goroutine
	files := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "guard" || name == "test" || strings.HasPrefix(entry.Name(), ".") && name != ".." || strings.HasSuffix(name, "test")):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: go statement: use guard.Go", positions.Position(n.Pos()))
			case *ast.SelectorExpr:
				from, ok := n.X.(*ast.Ident)
				if !ok || counters[name] {
					break
				}
				if instead := forbidden[from.Name+"."+n.Sel.Name]; instead != "" {
					t.Errorf("%s: %s.%s: use %s", positions.Position(n.Pos()), from.Name, n.Sel.Name, instead)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 300 {
		t.Errorf("%d files were checked: %v", files, err)
	}
}
