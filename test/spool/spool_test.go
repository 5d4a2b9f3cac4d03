package spool

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// program removes files named "*.stop": immediately, or after one second if slow is set.
type program struct {
	dir  string
	slow atomic.Bool
}

func (p *program) run(ctx context.Context) {
	seen := map[string]time.Time{}
	for ctx.Err() == nil {
		files, _ := filepath.Glob(filepath.Join(p.dir, "*", "*"+stop)) // the pattern is valid
		for _, file := range files {
			if seen[file].IsZero() {
				seen[file] = time.Now()
			}
			if !p.slow.Load() || time.Since(seen[file]) > time.Second {
				_ = os.Remove(file)
			}
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		config := &Config{Dir: t.TempDir()}
		ref := func(name string) targets.Ref { return targets.Ref{Fleet: "here", Name: name} }
		p := &targettest.Platform{Missing: ref("nobody"), Survive: true, Leased: true}
		var fleets []*Fleet
		open := func(t *testing.T) targets.Fleet {
			f, err := config.Build("here", targets.Env{Lease: p.Lease})
			if err != nil {
				t.Fatal(err)
			}
			fleets = append(fleets, f.(*Fleet))
			return f
		}
		p.SetCount = func(t *testing.T, ref targets.Ref, n int32) {
			if err := open(t).SetReplicas(t.Context(), ref, n, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		for n, count := range counts {
			p.Refs = append(p.Refs, ref("mails-"+string('a'+rune(n))))
			if err := os.Mkdir(filepath.Join(config.Dir, p.Refs[n].Name), 0o700); err != nil {
				t.Fatal(err)
			}
			p.SetCount(t, p.Refs[n], count)
		}
		workers := &program{dir: config.Dir}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { workers.run(ctx) })
		t.Cleanup(func() { cancel(); running.Wait() })
		p.Open = open
		p.Writes = func() (n int) {
			for _, f := range fleets {
				n += int(f.changes.Load())
			}
			return n
		}
		p.SlowStop = func(*testing.T, targets.Ref) { workers.slow.Store(true) }
		return p
	}})
}
