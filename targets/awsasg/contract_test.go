package awsasg

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/cloud/awslogin"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/aws/awstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig returns a valid configuration for a fleet in a fake cloud.
func testConfig(t testing.TB, c *awstest.Cloud) *Config {
	t.Helper()
	config := &Config{
		Login:   awslogin.Login{Region: awstest.Region, CredentialsFile: c.Credentials(t)},
		Timeout: 5 * time.Second, CheckInterval: time.Second,
		Endpoints:      Endpoints{AutoScaling: c.URL, EC2: c.URL, STS: c.URL},
		ReadsPerSecond: 1000, WritesPerSecond: 1000,
	}
	config.SetDefaults()
	if errs := config.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return config
}

func openFleet(t testing.TB, c *Config, options targets.Env) *Fleet {
	t.Helper()
	f := New("cloud", c, options)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "cloud", Name: name} }

func TestContract(t *testing.T) {
	targettest.Run(t, targettest.Kind{Of: &Kind, New: func(t *testing.T, counts ...int32) *targettest.Platform {
		c := awstest.New(t)
		p := &targettest.Platform{Missing: ref("nobody"), Survive: true, Leased: true, Writes: c.Writes}
		for n, count := range counts {
			name := fmt.Sprintf("group-%c", 'a'+n)
			c.Add(awstest.Group{Name: name, Max: 100, Desired: int(count)})
			p.Refs = append(p.Refs, ref(name))
		}
		store := &targettest.Store{}
		config := testConfig(t, c)
		var current *Fleet
		p.Open = func(t *testing.T) targets.Fleet {
			current = openFleet(t, config, targets.Env{Store: store, Lease: p.Lease})
			return current
		}
		with := func(ref targets.Ref, change func(g *awstest.Group)) { c.Edit(ref.Name, change) }
		p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) { with(ref, func(g *awstest.Group) { g.Desired = int(n) }) }
		p.Rival = func(_ *testing.T, _ targets.Ref, act func()) { c.Rival.Before(act, "SetDesiredCapacity") }
		p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) {
			with(ref, func(g *awstest.Group) {
				for _, instance := range g.Instances {
					if instance.ID == id && ready {
						instance.Health = "HEALTHY"
					} else if instance.ID == id {
						instance.Health = "Unhealthy"
					}
				}
			})
		}
		p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
			with(ref, func(g *awstest.Group) {
				if g.Status = ""; on {
					g.Status = "Delete in progress"
				}
			})
		}
		p.Bound = func(_ *testing.T, ref targets.Ref, highest int32) {
			with(ref, func(g *awstest.Group) { g.Max = int(highest) })
		}
		p.Unreachable = func(t *testing.T, on bool) {
			config.Endpoints.AutoScaling = c.URL
			if on {
				config.Endpoints.AutoScaling = "http://127.0.0.1:1"
			}
			session, err := current.Client(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			current.Forget(session)
		}
		p.Throttle = func(_ *testing.T, on bool) {
			if on {
				c.Throttle(0, 0)
			} else {
				c.Unthrottle()
			}
		}
		p.Hang = func(_ *testing.T, on bool) { c.Hang(on) }
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			with(ref, func(g *awstest.Group) { g.Stop = 1500 * time.Millisecond })
		}
		return p
	}})
}
