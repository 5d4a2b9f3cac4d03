package azurevmss

import (
	"fmt"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/azure/azuretest"
)

// testConfig returns a valid configuration for a fleet at a fake Azure. The argument extra
// contains additional lines of its table.
func testConfig(t testing.TB, s *azuretest.Server, extra string) *Config {
	t.Helper()
	var document struct {
		Fleets map[string]struct {
			Kind string `toml:"kind"`
			Config
		} `toml:"fleets"`
	}
	if _, err := toml.Decode(s.TOML("cloud", extra), &document); err != nil {
		t.Fatal(err)
	}
	c := document.Fleets["cloud"].Config
	c.SetDefaults()
	if errs := c.Validate(); errs != nil {
		t.Fatalf("Validate() = %v", errs)
	}
	return &c
}

// hasty contains limits that are too high to have an effect.
const hasty = "reads_per_second = 10000\nwrites_per_second = 10000\nset_writes_per_minute = 60000\n"

func openFleet(t testing.TB, c *Config, options targets.Env) *Fleet {
	t.Helper()
	f := New("cloud", c, options)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func ref(name string) targets.Ref { return targets.Ref{Fleet: "cloud", Name: name} }

// TestContract runs the contract suite with various configurations. While machines are being
// deleted, only a configuration that does not hold writes during updates can change the count.
func TestContract(t *testing.T) {
	platform := func(flexible, slow bool, extra string) func(t *testing.T, counts ...int32) *targettest.Platform {
		return func(t *testing.T, counts ...int32) *targettest.Platform {
			return contractPlatform(t, azuretest.New(t), flexible, slow, hasty+extra, counts)
		}
	}
	for name, kind := range map[string]targettest.Kind{
		"Uniform":              {New: platform(false, false, "")},
		"Flexible":             {New: platform(true, false, "list_by = \"subscription\"\n")},
		"write while updating": {Of: &Kind, New: platform(false, true, "while_updating = \"write\"\n")},
	} {
		t.Run(name, func(t *testing.T) { targettest.Run(t, kind) })
	}
}

func contractPlatform(t *testing.T, s *azuretest.Server, flexible, slow bool, extra string, counts []int32) *targettest.Platform {
	p := &targettest.Platform{Missing: ref("shop/nobody"), Survive: true, Compares: true, Highest: 100, Leased: true}
	for n, count := range counts {
		name := fmt.Sprintf("set-%c", 'a'+n)
		s.Add(azuretest.Set{Group: "shop", Name: name, Capacity: int(count), Flexible: flexible, Monitored: true})
		p.Refs = append(p.Refs, ref("shop/"+name))
	}
	store := &targettest.Store{}
	var current *Fleet
	p.Open = func(t *testing.T) targets.Fleet {
		current = openFleet(t, testConfig(t, s, extra), targets.Env{Store: store, Lease: p.Lease})
		return current
	}
	with := func(ref targets.Ref, change func(set *azuretest.Set)) { s.Change(ref.Name, change) }
	p.SetCount = func(_ *testing.T, ref targets.Ref, n int32) {
		with(ref, func(set *azuretest.Set) { set.Capacity = int(n) })
	}
	p.Rival = func(_ *testing.T, _ targets.Ref, act func()) { s.Rival.Before(act, "VirtualMachineScaleSets_Update") }
	p.SetReady = func(_ *testing.T, ref targets.Ref, id string, ready bool) {
		with(ref, func(set *azuretest.Set) {
			for _, m := range set.Machines {
				if set.ID(m) == id {
					m.Health = map[bool]string{true: "healthy", false: "unhealthy"}[ready]
				}
			}
		})
	}
	p.Hold = func(_ *testing.T, ref targets.Ref, on bool) {
		with(ref, func(set *azuretest.Set) { set.Rolling, set.Upgrading = true, on })
	}
	p.Bound = func(_ *testing.T, ref targets.Ref, _ int32) {
		with(ref, func(set *azuretest.Set) { set.SinglePlacement = true })
	}
	p.Unreachable = func(_ *testing.T, on bool) {
		if current.config.Endpoint = s.URL; on {
			current.config.Endpoint = "https://127.0.0.1:1"
		}
		current.Connection.Close()
	}
	p.Throttle = func(_ *testing.T, on bool) {
		if s.Throttle(0); on {
			s.Throttle(time.Second)
		}
	}
	p.Hang = func(_ *testing.T, on bool) { s.Hang(on) }
	if slow {
		p.SlowStop = func(_ *testing.T, ref targets.Ref) {
			with(ref, func(set *azuretest.Set) { set.DeleteDelay = 1500 * time.Millisecond })
		}
	}
	p.Writes = func() int { return s.Calls("VirtualMachineScaleSets_Update") }
	return p
}
