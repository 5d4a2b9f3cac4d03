package compose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-connections/nat"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/wait"
)

func testConfig(t testing.TB, host string) *Config {
	t.Helper()
	c := &Config{Config: docker.Config{Host: host, ResourceInterval: time.Second, Timeout: 5 * time.Second}}
	c.SetDefaults()
	if mistakes := c.Validate(); mistakes != nil {
		t.Fatalf("Validate() = %v", mistakes)
	}
	return c
}

func openFleet(t testing.TB, c *Config, store targets.Store) *Fleet {
	t.Helper()
	f, err := New("shop", c, targets.Env{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "shop", Name: name} }

func serviceOf(ref targets.Ref) string {
	_, service, _ := strings.Cut(ref.Name, "/")
	return service
}

func TestContract(t *testing.T) {
	for _, version := range []string{"1.41", "1.51"} {
		t.Run("API "+version, func(t *testing.T) {
			targettest.Run(t, targettest.Kind{Of: &Kind, Samples: true, New: func(t *testing.T, counts ...int32) *targettest.Platform {
				i := newFakeEngine(t)
				i.version = version
				return contractPlatform(t, i, counts)
			}})
		})
	}
}

func contractPlatform(t *testing.T, i *fakeEngine, counts []int32) *targettest.Platform {
	store := &targettest.Store{}
	p := &targettest.Platform{Missing: ref("shop/nobody"), Survive: true, Leased: true}
	p.Open = func(t *testing.T) targets.Fleet {
		f, err := New("shop", testConfig(t, i.host()), targets.Env{Store: store, Lease: p.Lease})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	services := map[targets.Ref]*service{}
	for n, count := range counts {
		s := &service{project: "shop", name: fmt.Sprintf("svc-%c", 'a'+n), healthcheck: true}
		r := ref("shop/" + s.name)
		services[r] = s
		p.Refs = append(p.Refs, r)
		i.up(*s, max(1, int(count)))
		if count == 0 {
			scaleOnce(t, openFleet(t, testConfig(t, i.host()), store), r, 0)
			wait.Soon(t, "end of the last container", func() bool { return len(i.of("shop", s.name)) == 0 })
		}
	}
	each := func(r targets.Ref, change func(c *fakeContainer)) {
		for _, c := range i.of("shop", serviceOf(r)) {
			i.with(func() { change(c) })
		}
	}
	p.SetCount = func(_ *testing.T, r targets.Ref, n int32) { i.up(*services[r], int(n)) }
	p.Rival = func(_ *testing.T, _ targets.Ref, act func()) {
		i.rival.Before(act, "POST containers/create", "POST containers/stop")
	}
	p.SetReady = func(_ *testing.T, r targets.Ref, id string, ready bool) {
		each(r, func(c *fakeContainer) {
			if c.ID == id {
				c.health = container.Unhealthy
				if ready {
					c.health = container.Healthy
				}
			}
		})
	}
	p.Hold = func(_ *testing.T, r targets.Ref, on bool) {
		last := i.of("shop", serviceOf(r))[0]
		i.with(func() {
			name := strings.TrimPrefix(last.Name, "/0123456789ab_")
			last.Name = "/" + strings.TrimPrefix(name, "/")
			if on {
				last.Name = "/0123456789ab_" + strings.TrimPrefix(last.Name, "/")
			}
		})
	}
	p.Bound = func(_ *testing.T, r targets.Ref, highest int32) {
		ports := nat.PortMap{"80/tcp": {{HostPort: fmt.Sprintf("8000-%d", 7999+highest)}}}
		services[r].ports = ports
		each(r, func(c *fakeContainer) { c.HostConfig.PortBindings = ports })
	}
	p.Unreachable = func(_ *testing.T, on bool) { i.with(func() { i.broken = on }) }
	p.Throttle = func(_ *testing.T, on bool) { i.with(func() { i.throttle = on }) }
	p.Hang = func(_ *testing.T, on bool) { i.setHang(on) }
	p.Reach = func(_ *testing.T, r targets.Ref, count int32) {
		i.with(func() {
			i.refuseStart = func(*fakeContainer) string {
				if len(i.replicas("shop", serviceOf(r))) > int(count) {
					return "driver failed programming external connectivity: Bind for 0.0.0.0:8002 failed: port is already allocated"
				}
				return ""
			}
		})
	}
	p.SlowStop = func(_ *testing.T, r targets.Ref) {
		i.with(func() { i.slow[serviceOf(r)] = 1500 * time.Millisecond })
	}
	p.Writes = func() int {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.changesLocked()
	}
	p.Sampling = func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return time.Since(i.sampled) < 1500*time.Millisecond
	}
	return p
}

// scaleOnce starts a fleet, scales a target, and closes the fleet after the last removal.
func scaleOnce(t *testing.T, f *Fleet, r targets.Ref, n int32) {
	t.Helper()
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.SetReplicas(t.Context(), r, n, "", "test decision"); err != nil {
		t.Fatal(err)
	}
	wait.Soon(t, "end of the removals", func() bool {
		return len(f.store.removing()) == 0
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
