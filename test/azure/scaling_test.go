package azure

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/azurevmss"
	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for hpad.
const patience = world.Patience

// quick sets a rate limit that does not delay changes.
const quick = "set_writes_per_minute = 6000\n"

// queued returns the configuration of an autoscaler for the scale set of the same name.
func queued(set string, minimum, maximum int) string {
	return world.Queued(set, fmt.Sprintf(`{ fleet = "cloud", resource_group = "Shop", scale_set = %q }`, set), minimum, maximum)
}

// awaitCapacity waits until a set has a capacity.
func awaitCapacity(t *testing.T, s *azuretest.Server, set string, want int) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("capacity %d of %s", want, set), func() (string, bool) {
		got := s.Capacity("shop/" + set)
		return fmt.Sprint(got), got == want
	})
}

// TestScaling runs each case with its own fake Azure and daemon. The cases share one Prometheus.
func TestScaling(t *testing.T) {
	t.Parallel()
	l := world.NewLoad(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *azuretest.Server, l *world.Load)
	}{
		{"grows and shrinks", growsAndShrinks},
		{"throttled for a minute", throttled},
		{"chosen victims", removalOrder},
		{"vanishing", vanishing},
		{"killed during a change", killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != "grows and shrinks" {
				soak.Complete(t)
			}
			c.run(t, azuretest.New(t), l)
		})
	}
}

// growsAndShrinks checks that a set follows its queue even if creations, health checks and
// deletions are slow. A write must wait until Azure has completed the previous one.
func growsAndShrinks(t *testing.T, s *azuretest.Server, l *world.Load) {
	s.Add(azuretest.Set{Group: "Shop", Name: "web", Capacity: 1, Monitored: true, BootDelay: 3 * time.Second, HealthDelay: time.Second, DeleteDelay: 2 * time.Second})
	l.Queue("web", 40)
	w := world.New(t, s.TOML("cloud", quick)+l.Source()+queued("web", 0, 6))
	awaitCapacity(t, s, "web", 4)
	s.Change("shop/web", func(set *azuretest.Set) { set.Busy = true })
	w.Await("web", policy.AbleToScale, azurevmss.ScaleSetUpdating, "is still updating scale set")
	l.Queue("web", 60)
	s.Change("shop/web", func(set *azuretest.Set) { set.Busy = false })
	awaitCapacity(t, s, "web", 6)
	wait.For(t, patience, "current replicas 6", func() (string, bool) {
		got := w.View("web").Status.CurrentReplicas
		return fmt.Sprint(got), got == 6
	})
	w.Await("web", policy.AbleToScale, "ReadyForNewScale", "")
	l.Queue("web", 0)
	awaitCapacity(t, s, "web", 0)
	l.Queue("web", 20)
	awaitCapacity(t, s, "web", 2)
}

// throttled checks that throttling of one subscription for a minute does not affect a second
// subscription.
func throttled(t *testing.T, s *azuretest.Server, l *world.Load) {
	other := azuretest.New(t)
	servers := map[string]*azuretest.Server{"spent": s, "spared": other}
	m := world.Minute{
		Fleets: s.TOML("spent", quick) + other.TOML("spared", quick+"writes_per_second = 1\n"),
		Target: func(fleet, name string) string {
			return fmt.Sprintf(`{ fleet = %q, resource_group = "Shop", scale_set = %q }`, fleet, name)
		},
		Count: func(fleet, name string) int { return servers[fleet].Capacity("shop/" + name) },
		Spend: s.Spend, Refused: s.Refused, Writes: func() int { return s.Calls("VirtualMachineScaleSets_Update") },
		Words: "too many requests have been received", Most: 18,
	}
	for n := range 22 { // hpad may change 20 of them at the same time
		m.Spared = append(m.Spared, fmt.Sprintf("spared-%c", 'a'+n))
		other.Add(azuretest.Set{Group: "Shop", Name: m.Spared[n], Capacity: 1})
	}
	for _, name := range []string{world.Shrinking, world.Growing} {
		s.Add(azuretest.Set{Group: "Shop", Name: name, Capacity: world.Before})
	}
	m.Run(t, l)
}

// removalOrder checks that hpad deletes machines in the configured order, except protected ones.
func removalOrder(t *testing.T, s *azuretest.Server, l *world.Load) {
	target := func(name string) string { return "shop/" + name }
	deleted := func() int { return s.Calls("VirtualMachineScaleSets_DeleteInstances") }
	world.Chosen{
		Fleet: s.TOML("cloud", quick+"while_updating = \"write\"\n"),
		Target: func(name string) string {
			return fmt.Sprintf(`{ fleet = "cloud", resource_group = "Shop", scale_set = %q }`, name)
		},
		Make: func(name string, unhealthy []int, protected int) []string {
			s.Add(azuretest.Set{Group: "Shop", Name: name, Capacity: 5, Monitored: true, DeleteDelay: time.Second})
			var made []string
			s.Change(target(name), func(set *azuretest.Set) {
				for n, m := range set.Machines {
					m.Created = m.Created.Add(time.Duration(n-10) * time.Hour)
					m.Protected = n == protected
					if slices.Contains(unhealthy, n) {
						m.Health = "unhealthy"
					}
					made = append(made, set.Host(m))
				}
			})
			return made
		},
		Match: "name", Protects: true,
		Stay: func(name string) []string {
			return azuretest.Look(s, target(name), func(set *azuretest.Set) []string {
				var hosts []string
				for _, m := range set.Living() {
					hosts = append(hosts, set.Host(m))
				}
				return hosts
			})
		},
		Count:  func(name string) int { return s.Capacity(target(name)) },
		Writes: func() int { return deleted() + s.Calls("VirtualMachineScaleSets_Update") },
	}.Run(t, l)
	if n := s.Calls("VirtualMachineScaleSets_Update"); n != 0 {
		t.Errorf("updates of the capacity = %d, want 0", n)
	}
}

// vanishing checks that readings that omit most of the machines do not cause a scale-down.
func vanishing(t *testing.T, s *azuretest.Server, l *world.Load) {
	target := "shop/" + world.Ghost
	s.Add(azuretest.Set{Group: "Shop", Name: world.Ghost, Capacity: world.Present})
	world.Vanishing{
		Fleet: s.TOML("cloud", quick), Target: fmt.Sprintf(`{ fleet = "cloud", resource_group = "Shop", scale_set = %q }`, world.Ghost),
		Lie:    func(rounds int) { s.Lie(target, rounds, 1, 1) },
		Lose:   func() { s.Change(target, func(set *azuretest.Set) { set.Capacity = world.Left }) },
		Count:  func() int { return s.Capacity(target) },
		Writes: func() int { return s.Calls("VirtualMachineScaleSets_Update") },
	}.Run(t, l)
}

// killed checks that a daemon that restarts during a change does not repeat the change.
func killed(t *testing.T, s *azuretest.Server, l *world.Load) {
	s.Add(azuretest.Set{Group: "Shop", Name: "lasting", Capacity: 1, BootDelay: 4 * time.Second})
	l.Queue("lasting", 30)
	text := s.TOML("cloud", quick+"while_updating = \"write\"\n") + l.Source() + queued("lasting", 1, 5)
	w := world.New(t, text)
	awaitCapacity(t, s, "lasting", 3)
	w.Restart(text)
	w.Passes("lasting", 3)
	if got, writes := s.Capacity("shop/lasting"), s.Calls("VirtualMachineScaleSets_Update"); got != 3 || writes != 1 {
		t.Errorf("capacity = %d after %d writes, want 3 after 1 write", got, writes)
	}
	if n := world.Told(w.View("lasting").Events, string(policy.ForeignWriter)); n != 0 {
		t.Errorf("ForeignWriter events = %d, want 0", n)
	}
}
