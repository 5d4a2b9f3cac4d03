package nomad

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
)

// testConfig returns a valid configuration of a fleet at an address.
func testConfig(t testing.TB, address string) *Config {
	t.Helper()
	c := &Config{Address: address, ResourceInterval: time.Second, Timeout: 5 * time.Second}
	c.SetDefaults()
	if errs := c.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return c
}

func openFleet(t testing.TB, c *Config, store targets.Store) *Fleet {
	t.Helper()
	f, err := New("prod", c, targets.Env{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "prod", Name: name} }

func jobOf(ref targets.Ref) string {
	job, _, _ := strings.Cut(ref.Name, "/")
	return job
}

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, Samples: true, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		i := newFakeServer(t)
		p := &targettest.Platform{Missing: ref("nobody/app"), Survive: true, Compares: true, Leased: true}
		for n, count := range counts {
			id := fmt.Sprintf("job-%c", 'a'+n)
			i.add(id, int(count))
			p.Refs = append(p.Refs, ref(id+"/app"))
		}
		store := &targettest.Store{}
		var current *Fleet
		p.Open = func(t *testing.T) targets.Fleet {
			var err error
			if current, err = New("prod", testConfig(t, i.server.URL), targets.Env{Store: store, Lease: p.Lease}); err != nil {
				t.Fatal(err)
			}
			return current
		}
		with := func(ref targets.Ref, change func(job *fakeJob)) { i.change(jobOf(ref), change) }
		p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) { with(ref, func(j *fakeJob) { j.count = int(n) }) }
		p.Rival = func(_ *testing.T, ref targets.Ref, act func()) {
			i.rival.Before(act, "PUT /v1/job/"+jobOf(ref)+"/scale")
		}
		p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) {
			with(ref, func(j *fakeJob) {
				for _, alloc := range j.allocs {
					if alloc.id == id {
						alloc.healthy, alloc.turned = &ready, time.Now()
					}
				}
			})
		}
		p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
			with(ref, func(j *fakeJob) {
				if j.deployment = ""; on {
					j.deployment = "Deployment is running"
				}
			})
		}
		p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
			with(ref, func(j *fakeJob) { j.maximum = int(highest) })
		}
		p.Unreachable = func(t *testing.T, on bool) {
			if on {
				current.config.Address = "http://127.0.0.1:1"
				replaceConnection(t, current)
				return
			}
			current.config.Address = i.server.URL
			replaceConnection(t, current)
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
			i.slow[jobOf(ref)] = true
		}
		p.Writes = func() int {
			i.mu.Lock()
			defer i.mu.Unlock()
			return len(i.scaled)
		}
		p.Sampling = func() bool { return current.sampler.Running() }
		return p
	}})
}

func replaceConnection(t *testing.T, f *Fleet) {
	t.Helper()
	connection, err := newConnection(f.config, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.connection.Close()
	f.connection = connection
}
