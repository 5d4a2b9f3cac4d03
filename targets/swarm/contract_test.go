package swarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
)

func testConfig(t testing.TB, host string, changes ...func(c *Config)) *Config {
	t.Helper()
	for _, name := range []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"} {
		t.Setenv(name, "")
	}
	c := &Config{Config: docker.Config{Host: host, ResourceInterval: time.Second, Timeout: 5 * time.Second}}
	for _, change := range changes {
		change(c)
	}
	c.SetDefaults()
	if errs := c.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return c
}

func openFleet(t testing.TB, c *Config) *Fleet {
	t.Helper()
	f, err := New("shop", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "shop", Name: name} }

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, Samples: true, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		i := newFakeManager(t)
		p := &targettest.Platform{Missing: ref("nobody"), Survive: true, Compares: true, Leased: true}
		for n, count := range counts {
			name := fmt.Sprintf("shop_%c", 'a'+n)
			i.add(name, int(count))
			p.Refs = append(p.Refs, ref(name))
		}
		var current *Fleet
		p.Open = func(t *testing.T) targets.Fleet {
			var err error
			if current, err = New("shop", testConfig(t, i.host()), p.Lease); err != nil {
				t.Fatal(err)
			}
			return current
		}
		p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
			i.with(ref.Name, func(s *fakeService) { s.setCount(int(n)) })
		}
		p.Rival = func(_ *testing.T, ref targets.Ref, act func()) {
			i.rival.Before(act, "POST /v"+i.version+"/services/id-of-"+ref.Name+"/update")
		}
		p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
			i.with(ref.Name, func(s *fakeService) {
				s.updateStatus = map[string]any{"State": "completed", "Message": "update completed"}
				if on {
					s.updateStatus = map[string]any{"State": "updating", "Message": "update in progress"}
				}
			})
		}
		p.Unreachable = func(t *testing.T, on bool) {
			host := i.host()
			if on {
				host = "tcp://127.0.0.1:1"
			}
			current.config.Host = host
			engine, err := docker.Connect(&current.config.Config, nil)
			if err != nil {
				t.Fatal(err)
			}
			current.engine.Close()
			current.engine = engine
		}
		p.Throttle = func(_ *testing.T, on bool) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.throttle = on
		}
		p.Hang = func(_ *testing.T, on bool) { i.setHang(on) }
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.findLocked(ref.Name).slow = true
		}
		p.Writes = func() int {
			i.mu.Lock()
			defer i.mu.Unlock()
			return len(i.updates)
		}
		p.Sampling = func() bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			return time.Since(i.sampled) < 3*current.config.ResourceInterval/2
		}
		return p
	}})
}
