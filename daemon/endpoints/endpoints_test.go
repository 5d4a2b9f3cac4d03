package endpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
)

var ref = targets.Ref{Fleet: "local", Name: "web"}

// pool is a target whose readings the test sets. The commands append to the file runs.
type pool struct {
	t    *testing.T
	dir  string
	set  *Set
	logs *observer.ObservedLogs

	mu      sync.Mutex
	reading targets.Reading
	err     error
}

func newPool(t *testing.T) *pool {
	core, logs := observer.New(zap.InfoLevel)
	p := &pool{t: t, dir: t.TempDir(), logs: logs}
	p.set = NewSet(zap.New(core), func(context.Context, *Target, bool) (targets.Reading, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.reading, p.err
	})
	return p
}

func (p *pool) path(name string) string { return filepath.Join(p.dir, name) }

// apply publishes the endpoints with a command in shell syntax until the test ends.
func (p *pool) apply(command string) {
	c := &Config{File: p.path("web.map"), Timeout: 20 * time.Second}
	if command != "" {
		c.Command = []string{"sh", "-c", command}
	}
	ctx, cancel := context.WithCancel(p.t.Context())
	p.t.Cleanup(func() {
		cancel()
		p.set.Wait()
	})
	p.set.Apply(ctx, []Target{{Autoscaler: "web", Ref: ref, Config: c}})
	p.wait(100 * time.Millisecond)
}

func (p *pool) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// read sets the reading: the ports of ready instances, negative for terminating instances.
func (p *pool) read(err error, ports ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reading, p.err = readingOf(ports...), err
}

func readingOf(ports ...int) targets.Reading {
	var r targets.Reading
	var locations targets.LocationList
	for _, port := range ports {
		r.Instances = append(r.Instances, policy.Instance{
			ID: fmt.Sprintf("web-%d", max(port, -port)), Phase: policy.PhaseRunning, Readiness: policy.ReadinessTrue, Deleting: port < 0,
		})
		locations = append(locations, targets.Location{Addresses: []string{"127.0.0.1"}, Ports: targets.Ports{{Number: max(port, -port)}}})
	}
	r.Locations = locations
	return r
}

// want checks the file, the number of runs of the command, and the problem.
func (p *pool) want(content string, runs int, problem string) {
	p.t.Helper()
	text, err := os.ReadFile(p.path("web.map"))
	if got := strings.Join(strings.Fields(string(text)), " "); got != content || err != nil && content != "" {
		p.t.Errorf("the file contains %q (%v), want %q", got, err, content)
	}
	ran, _ := os.ReadFile(p.path("runs"))
	if got := strings.Count(string(ran), "\n"); got != runs {
		p.t.Errorf("the command ran %d times, want %d", got, runs)
	}
	if got := p.set.Problem(ref); (got == "") != (problem == "") || !strings.Contains(got, problem) {
		p.t.Errorf("the problem is %q, want %q", got, problem)
	}
}

const run = `echo run >> "$(dirname "$HPAD_FILE")/runs"`

func TestPublish(t *testing.T) {
	const one, two = "127.0.0.1:8001", "127.0.0.1:8001 127.0.0.1:8002"
	for name, test := range map[string]func(t *testing.T, p *pool){
		"changes": func(_ *testing.T, p *pool) {
			p.read(nil, 8002, 8001)
			p.apply(run)
			p.want(two, 1, "")
			p.wait(10 * time.Second)
			p.want(two, 1, "")
			p.read(nil, 8001, -8002)
			p.wait(time.Second)
			p.want(one, 2, "")
			p.read(nil)
			p.wait(time.Second)
			p.want("", 3, "")
		},
		"failed reading": func(_ *testing.T, p *pool) {
			p.read(nil, 8001)
			p.apply(run)
			p.read(errors.New("no answer"))
			p.wait(time.Minute)
			p.want(one, 1, "")
		},
		"no reading after a start": func(t *testing.T, p *pool) {
			write(t, p.path("web.map"), two)
			p.read(errors.New("not read yet"))
			p.apply(run)
			p.wait(time.Minute)
			p.want(two, 0, "")
		},
		"unchanged after a start": func(t *testing.T, p *pool) {
			write(t, p.path("web.map"), one+"\n")
			p.read(nil, 8001)
			p.apply(run)
			p.want(one, 0, "")
		},
		"killed before the command": func(t *testing.T, p *pool) {
			write(t, p.path("web.map"), one+"\n")
			write(t, p.path(".web.map.pending"), "")
			p.read(nil, 8001)
			p.apply(run)
			p.want(one, 1, "")
			p.set.Apply(t.Context(), nil)
			p.set.Wait()
			p.apply(run)
			p.want(one, 1, "")
		},
		"failing command": func(_ *testing.T, p *pool) {
			p.read(nil, 8001)
			p.apply(run + `; echo no config; test -e "$(dirname "$HPAD_FILE")/fixed"`)
			p.want(one, 1, `run "sh" after a change of the endpoints: exit status 1: no config`)
			p.wait(3 * time.Second) // attempts after 1 s and 3 s
			p.want(one, 3, "no config")
			p.wait(30 * time.Minute)
			if text, _ := os.ReadFile(p.path("runs")); len(text) > 40*len("run\n") {
				p.t.Errorf("%d runs in half an hour", len(text)/len("run\n"))
			}
			p.read(nil, 8001, 8002) // a change does not wait for the next attempt
			write(p.t, p.path("fixed"), "")
			p.wait(2 * time.Second)
			if got := p.set.Problem(ref); got != "" {
				p.t.Errorf("the problem is still %q", got)
			}
			if n := p.logs.FilterMessage("cannot publish endpoints").Len(); n != 1 {
				p.t.Errorf("%d warnings, want 1", n)
			}
		},
		"unwritable file": func(t *testing.T, p *pool) {
			dir := p.dir
			p.dir = filepath.Join(dir, "missing")
			p.read(nil, 8001)
			p.apply("")
			p.want("", 0, "write the endpoints: ")
			if err := os.Mkdir(p.dir, 0o750); err != nil {
				t.Fatal(err)
			}
			p.wait(time.Minute)
			p.want(one, 0, "")
		},
		"no address": func(_ *testing.T, p *pool) {
			p.read(nil, 8001)
			p.apply(run)
			bad := readingOf(8002)
			bad.Locations = targets.LocationList{{}}
			p.mu.Lock()
			p.reading = bad
			p.mu.Unlock()
			p.wait(time.Minute)
			p.want(one, 1, `endpoint of instance "web-8002": it has no address`)
			p.read(nil, 8001)
			p.wait(time.Second)
			p.want(one, 1, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newPool(t)) })
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWithdraw checks that Withdraw returns after the endpoints are published, that calls within a
// second share a run of the command, and that a failing command delays only the first calls.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t)
		p.read(nil, 8001, 8002, 8003)
		p.apply(run + `; test ! -e "$(dirname "$HPAD_FILE")/broken"`)
		p.wait(2 * time.Second)
		p.read(nil, 8001, 8002, -8003)
		p.set.Withdraw(t.Context(), ref)
		p.want("127.0.0.1:8001 127.0.0.1:8002", 2, "")
		p.read(nil, 8001, -8002, -8003)
		began := time.Now()
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() { p.set.Withdraw(t.Context(), ref) })
		}
		calls.Wait()
		p.want("127.0.0.1:8001", 3, "")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("eight calls took %v", took)
		}
		write(t, p.path("broken"), "")
		p.read(nil, -8001)
		waiting := time.AfterFunc(patience/2, func() {
			if !p.set.Withdrawing(ref) {
				t.Error("the first removal does not wait")
			}
		})
		defer waiting.Stop()
		for n, atLeast := range []time.Duration{patience, 0, 0} { // it delays the first removal only
			began = time.Now()
			p.set.Withdraw(t.Context(), ref)
			if took := time.Since(began); took < atLeast || took > 2*atLeast {
				t.Errorf("call %d with a failing command took %v, want %v", n, took, atLeast)
			}
		}
		if err := os.Remove(p.path("broken")); err != nil {
			t.Fatal(err)
		}
		p.wait(2 * maxBackoff)
		p.want("", 8, "")
		if p.set.Withdrawing(ref) {
			t.Error("a removal still waits")
		}
		p.read(nil, -8001, 8002)
		p.set.Withdraw(t.Context(), ref)
		p.want("127.0.0.1:8002", 9, "")
		p.set.Withdraw(t.Context(), targets.Ref{Fleet: "local", Name: "other"})
		p.set.Apply(t.Context(), nil)
		p.set.Wait()
		p.set.Withdraw(t.Context(), ref)
	})
}

// TestLink checks that a link to the file of a proxy remains, and that the file keeps its mode.
func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t)
		real := filepath.Join(t.TempDir(), "real.map")
		write(t, real, "")
		if err := os.Symlink(real, p.path("web.map")); err != nil {
			t.Fatal(err)
		}
		p.read(nil, 8001)
		p.apply(run)
		p.want("127.0.0.1:8001", 1, "")
		if target, err := os.Readlink(p.path("web.map")); err != nil || target != real {
			t.Errorf("the link points to %q, %v, want %q", target, err, real)
		}
		if info, err := os.Stat(real); err != nil || info.Mode() != 0o600 {
			t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
		}
	})
}

func TestTemplates(t *testing.T) {
	c := &Config{Template: "{{range .Instances}}server {{.ID}} {{.Host}}:{{.Port}};{{end}}", Port: "http"}
	reading := readingOf(8001)
	reading.Locations = targets.LocationList{{Addresses: []string{"::1"}, Ports: targets.Ports{{Label: "admin", Number: 1}, {Label: "http", Number: 2}}}}
	ready, err := Ready(&reading, c.Port)
	if err != nil || ready[0].Address != "[::1]:2" {
		t.Fatalf("%+v, %v", ready, err)
	}
	parsed, err := c.parse()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := parsed.Execute(&data{Instances: ready}); text != "server web-8001 ::1:2;" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := Ready(&reading, "rpc"); err == nil || err.Error() != `endpoint of instance "web-8001": it has no port "rpc", only: admin, http` {
		t.Errorf("unknown port: %v", err)
	}
	if ready, err := Ready(&reading, ""); err != nil || ready[0].Port != 1 {
		t.Errorf("lowest label: %+v, %v", ready, err)
	}
}
