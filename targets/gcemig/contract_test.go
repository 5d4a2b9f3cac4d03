package gcemig

import (
	"fmt"
	"testing"
	"time"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud"
	"github.com/hpad/hpad/targets/cloud/googlelogin"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/gce/gcetest"
)

// testConfig returns a valid configuration for a fleet at a fake server.
func testConfig(t testing.TB, server *gcetest.Server) *Config {
	t.Helper()
	c := &Config{
		Project: server.Project, Endpoint: server.Endpoint, Login: googlelogin.Login{CredentialsFile: server.CredentialsFile(t)},
		Timeout: 5 * time.Second, ReadsPerSecond: 1000, WritesPerSecond: 1000,
	}
	c.SetDefaults()
	if errs := c.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return c
}

func openFleet(t testing.TB, c *Config, store targets.Store) *Fleet {
	t.Helper()
	f := New("prod", c, targets.Env{Store: store})
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "prod", Name: name} }

func TestContract(t *testing.T) {
	for name, place := range map[string]gcetest.Group{
		"zonal":    {Zone: "us-central1-a"},
		"regional": {Region: "us-central1", Paginated: true},
	} {
		t.Run(name, func(t *testing.T) { targettest.Run(t, contractKind(place)) })
	}
}

// contractKind returns the kind with groups in one zone or region.
func contractKind(place gcetest.Group) targettest.Kind {
	return targettest.Kind{Of: &Kind, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		server := gcetest.Start(t)
		missing := place
		missing.Name = "nobody"
		p := &targettest.Platform{Missing: ref(missing.Target()), Survive: true, HiddenBound: true, Leased: true}
		for n, count := range counts {
			group := place
			group.Name, group.Size, group.Watched = fmt.Sprintf("group-%c", 'a'+n), int(count), true
			server.Add(group)
			p.Refs = append(p.Refs, ref(group.Target()))
		}
		store := &targettest.Store{}
		config := testConfig(t, server)
		endpoint := config.Endpoint
		var current *Fleet
		p.Open = func(t *testing.T) targets.Fleet {
			current = New("prod", config, targets.Env{Store: store, Lease: p.Lease})
			return current
		}
		p.SetCount = func(t *testing.T, ref targets.Ref, n int32) { server.Resize(t, ref.Name, int(n)) }
		p.Rival = func(_ *testing.T, _ targets.Ref, act func()) {
			server.Rival.Before(act, "instanceGroupManagers.resize", "regionInstanceGroupManagers.resize")
		}
		p.SetReady = func(t *testing.T, ref targets.Ref, id string, ready bool) {
			state := "UNHEALTHY"
			if ready {
				state = "HEALTHY"
			}
			server.SetHealth(t, ref.Name, id, state)
		}
		p.Hold = func(t *testing.T, ref targets.Ref, on bool) {
			mode := "OFF"
			if on {
				mode = "ON"
			}
			server.SetAutoscaler(t, ref.Name, mode)
			current.autoscalers.CachedDetail = cloud.CachedDetail[map[string]string]{} // read it again
		}
		p.Bound = func(t *testing.T, ref targets.Ref, highest int32) { server.SetLargest(t, ref.Name, int(highest)) }
		p.Unreachable = func(_ *testing.T, on bool) {
			current.Connection.Close()
			if config.Endpoint = endpoint; on {
				config.Endpoint = "http://127.0.0.1:1/"
			}
		}
		p.Throttle = func(_ *testing.T, on bool) { server.Throttle(on) }
		var release func()
		p.Hang = func(_ *testing.T, on bool) {
			if on {
				release = server.Inject(gcetest.Fault{Hang: true})
				return
			}
			release()
		}
		p.SlowStop = func(t *testing.T, ref targets.Ref) { server.SetTimes(t, ref.Name, 0, 2*time.Second) }
		p.Writes = server.Writes
		return p
	}}
}
