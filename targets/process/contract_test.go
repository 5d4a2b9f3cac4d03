package process

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/probe"
	"github.com/hpad/hpad/targets/targettest"
)

// fixture contains the environment of a fleet: a control directory, a store, the output of
// instances, and the configuration.
type fixture struct {
	dir    string
	store  targettest.Store
	config *Config
	output buffer
	// survive makes the processes outlive their fleet.
	survive bool
}

// newFixture returns a fixture with services named "a", "b" and so on.
func newFixture(t *testing.T, counts ...int32) *fixture {
	w := &fixture{dir: t.TempDir(), config: &Config{ResourceInterval: 200 * time.Millisecond, Services: map[string]Service{}}}
	for i, count := range counts {
		w.config.Services[string(rune('a'+i))] = w.service("serve", fmt.Sprintf("%d-%d", basePort+20*i, basePort+20*i+9), count)
	}
	w.config.SetDefaults()
	return w
}

// basePort is the first port of the tests' instances. It is below the ephemeral ports.
const basePort = 21700

func (w *fixture) service(worker, ports string, count int32) Service {
	s := Service{
		Command: []string{os.Args[0]}, Env: w.env(worker),
		Ports: ports, Replicas: &count, RestartBackoffMin: 20 * time.Millisecond,
	}
	if ports != "" {
		s.Readiness = Readiness{HTTP: "/ready", Interval: 50 * time.Millisecond, Limits: probe.Limits{FailureThreshold: 1}}
	}
	return s
}

// env returns the environment variables of a worker. Without GORACE, a worker built with the
// race detector would wait a second before it exits.
func (w *fixture) env(worker string) map[string]string {
	return map[string]string{"WORKER": worker, "CONTROL": w.dir, "GORACE": "atexit_sleep_ms=0"}
}

func (w *fixture) alter(name string, change func(s *Service)) {
	s := w.config.Services[name]
	change(&s)
	w.config.Services[name] = s
}

func (w *fixture) open(t *testing.T) *Fleet {
	t.Helper()
	if errs := w.config.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return New("local", w.config, w.fleetEnv(t))
}

func (w *fixture) fleetEnv(t *testing.T) targets.Env {
	env := targets.Env{Store: &w.store, OutputDir: filepath.Join(w.dir, "output"), Output: func(_, _ string) io.Writer { return &w.output }}
	if w.survive {
		env.Exiting = func() bool { return true }
		t.Cleanup(func() { w.killSurvivors(t) })
	}
	return env
}

// killSurvivors kills the recorded processes, and waits for the end of the collector.
func (w *fixture) killSurvivors(t *testing.T) {
	stored, _ := w.store.List(context.Background(), recordPrefix)
	for _, text := range stored {
		var r record
		if json.Unmarshal(text, &r) == nil && r.PID > 0 {
			_ = syscall.Kill(-r.PID, syscall.SIGKILL)
			_, _ = syscall.Wait4(r.PID, nil, 0, nil)
		}
	}
	dir, err := os.Open(filepath.Join(w.dir, "output"))
	if err != nil {
		return
	}
	defer func() { _ = dir.Close() }()
	eventually(t, func() string {
		if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			return "the collector has ended"
		}
		return ""
	})
}

func (w *fixture) touch(t *testing.T, name string, there bool) {
	t.Helper()
	path := filepath.Join(w.dir, name)
	var err error
	if there {
		err = os.WriteFile(path, nil, 0o600)
	} else {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// buffer is a writer that is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, text...)
	return len(text), nil
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "local", Name: name} }

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, Samples: true, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		w := newFixture(t, counts...)
		w.survive = true
		var current *Fleet
		p := &targettest.Platform{Missing: ref("nobody"), Survive: true}
		for i := range counts {
			p.Refs = append(p.Refs, ref(string(rune('a'+i))))
		}
		p.Open = func(t *testing.T) targets.Fleet {
			current = w.open(t)
			return current
		}
		p.SetReady = func(t *testing.T, _ targets.Ref, id string, ready bool) { w.touch(t, "unready-"+id, !ready) }
		p.SlowStop = func(t *testing.T, _ targets.Ref) { w.touch(t, "slow", true) }
		p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
			w.alter(ref.Name, func(s *Service) { s.Ports = fmt.Sprintf("%d-%d", basePort, basePort+highest-1) })
		}
		p.Sampling = func() bool { return current.sampler.Running() }
		return p
	}})
}
