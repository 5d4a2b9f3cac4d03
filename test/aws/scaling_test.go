package aws

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for hpad.
const patience = world.Patience

// fleet returns the configuration of a fleet named "cloud".
func fleet(c *awstest.Cloud, credentials, extra string) string {
	return named("cloud", c, credentials, extra)
}

func named(name string, c *awstest.Cloud, credentials, extra string) string {
	return fmt.Sprintf(`
[fleets.%s]
kind             = "awsasg"
region           = %q
credentials_file = %q
endpoints        = { auto_scaling = %q, ec2 = %q, sts = %q }
timeout          = "3s"
check_interval   = "1s"
%s
`, name, awstest.Region, credentials, c.URL, c.URL, c.URL, extra)
}

// queued returns the configuration of an autoscaler for the group of the same name.
func queued(group string, minimum, maximum int) string {
	return world.Queued(group, fmt.Sprintf(`{ fleet = "cloud", group = %q }`, group), minimum, maximum)
}

// awaitDesired waits for the desired capacity of a group.
func awaitDesired(t *testing.T, c *awstest.Cloud, group string, want int) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("desired capacity %d of %s", want, group), func() (string, bool) {
		got := c.Look(group).Desired
		return fmt.Sprint(got), got == want
	})
}

// TestScaling runs each case with its own fake AWS and daemon. The cases share one Prometheus.
func TestScaling(t *testing.T) {
	t.Parallel()
	l := world.NewLoad(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, c *awstest.Cloud, l *world.Load)
	}{
		{"grows and shrinks", growsAndShrinks},
		{"booting instances", booting},
		{"chosen victims", removalOrder},
		{"throttled for a minute", throttled},
		{"external writer", externalWriter},
		{"stale descriptions", stale},
		{"vanishing", vanishing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != "grows and shrinks" {
				soak.Complete(t)
			}
			c.run(t, awstest.New(t), l)
		})
	}
}

// growsAndShrinks checks that a group follows its queue even if launches and terminations are
// slow.
func growsAndShrinks(t *testing.T, c *awstest.Cloud, l *world.Load) {
	c.Add(awstest.Group{Name: "web", Max: 100, Desired: 1, Boot: 3 * time.Second, Stop: 2 * time.Second})
	l.Queue("web", 40)
	w := world.New(t, fleet(c, c.Credentials(t), "")+l.Source()+queued("web", 0, 6))
	awaitDesired(t, c, "web", 4)
	l.Queue("web", 90)
	awaitDesired(t, c, "web", 6)
	wait.For(t, patience, "current replicas 6", func() (string, bool) {
		got := w.View("web").Status.CurrentReplicas
		return fmt.Sprint(got), got == 6
	})
	l.Queue("web", 0)
	awaitDesired(t, c, "web", 0)
	l.Queue("web", 20)
	awaitDesired(t, c, "web", 2)
	if n := c.Writes(); n > 6 {
		t.Errorf("writes = %d, want at most 6", n)
	}
}

// booting checks that hpad assumes that starting instances are idle, so that a high load on the
// running instances causes only one scale-up (R27, R36).
func booting(t *testing.T, c *awstest.Cloud, l *world.Load) {
	c.Add(awstest.Group{Name: "slow", Max: 100, Desired: 2, NeverBoots: true})
	for _, instance := range c.Look("slow").Instances {
		l.Set(fmt.Sprintf("cpu{instance_id=%q}", instance.ID), 2)
	}
	w := world.New(t, fleet(c, c.Credentials(t), "")+l.Source()+`
[autoscalers.slow]
target       = { fleet = "cloud", group = "slow", requests = { cpu = "1" } }
min_replicas = 1
max_replicas = 50
[[autoscalers.slow.metrics]]
type                = "Resource"
resource            = "cpu"
source              = "prom"
query               = 'sum by (instance_id) (cpu{instance_id=~"i-.*"})'
instance_label      = "instance_id"
window              = "1s"
average_utilization = 60
`)
	// A load of 200% on two instances with a target of 60% requires 7 instances. On seven
	// instances the same load is 57%.
	awaitDesired(t, c, "slow", 7)
	w.Passes("slow", 4)
	if got := c.Look("slow").Desired; got != 7 {
		t.Errorf("desired capacity during the boot = %d, want 7", got)
	}
	c.Edit("slow", func(g *awstest.Group) {
		for _, instance := range g.Instances {
			if instance.State == awstest.StatePending {
				instance.State, instance.Health = awstest.StateInService, "Unhealthy"
			}
		}
	})
	w.Passes("slow", 3)
	if got := c.Look("slow").Desired; got != 7 {
		t.Errorf("desired capacity with unhealthy instances = %d, want 7", got)
	}
}

// removalOrder checks that hpad terminates instances in the configured order, except protected
// ones, and lowers the desired capacity accordingly.
func removalOrder(t *testing.T, c *awstest.Cloud, l *world.Load) {
	world.Chosen{
		Fleet:  fleet(c, c.Credentials(t), ""),
		Target: func(name string) string { return fmt.Sprintf(`{ fleet = "cloud", group = %q }`, name) },
		Make: func(name string, unhealthy []int, protected int) []string {
			c.Add(awstest.Group{Name: name, Max: 100, Desired: 5, Stop: time.Second})
			var made []string
			c.Edit(name, func(g *awstest.Group) {
				for n, instance := range g.Instances {
					instance.Launched = instance.Launched.Add(time.Duration(n-10) * time.Hour)
					instance.Protected = n == protected
					if slices.Contains(unhealthy, n) {
						instance.Health = "Unhealthy"
					}
					made = append(made, instance.ID)
				}
			})
			return made
		},
		Match: "id", Protects: true,
		Stay:  func(name string) []string { return ids(c, name) },
		Count: func(name string) int { return c.Look(name).Desired }, Writes: c.Writes,
	}.Run(t, l)
	if n := c.Calls()["SetDesiredCapacity"]; n != 0 {
		t.Errorf("SetDesiredCapacity calls = %d, want 0", n)
	}
}

// ids returns the IDs of a group's instances that are not terminating, sorted.
func ids(c *awstest.Cloud, group string) []string {
	var found []string
	for _, instance := range c.Look(group).Instances {
		if instance.State != awstest.StateTerminating {
			found = append(found, instance.ID)
		}
	}
	slices.Sort(found)
	return found
}

// throttled checks that throttling of one account for a minute does not affect a second account.
func throttled(t *testing.T, c *awstest.Cloud, l *world.Load) {
	other := awstest.New(t)
	clouds := map[string]*awstest.Cloud{"spent": c, "spared": other}
	m := world.Minute{
		Fleets: named("spent", c, c.Credentials(t), "") + named("spared", other, other.Credentials(t), "writes_per_second = 0.5"),
		Target: func(fleet, name string) string { return fmt.Sprintf(`{ fleet = %q, group = %q }`, fleet, name) },
		Spared: []string{"spared-a", "spared-b", "spared-c"},
		Count:  func(fleet, name string) int { return clouds[fleet].Look(name).Desired },
		Spend:  c.Spend, Refused: c.Refused, Writes: c.Writes, Words: "Rate exceeded", Most: 12,
	}
	for _, name := range []string{world.Shrinking, world.Growing} {
		c.Add(awstest.Group{Name: name, Max: 100, Desired: world.Before})
	}
	for _, name := range m.Spared {
		other.Add(awstest.Group{Name: name, Max: 100, Desired: 1})
	}
	m.Run(t, l)
}

// externalWriter checks that a manual change of the count is reported and reverted, and that a new
// minimum of the group is respected.
func externalWriter(t *testing.T, c *awstest.Cloud, l *world.Load) {
	c.Add(awstest.Group{Name: "shared", Max: 100, Desired: 2})
	l.Queue("shared", 20)
	w := world.New(t, fleet(c, c.Credentials(t), "")+l.Source()+queued("shared", 1, 10))
	w.Passes("shared", 2)
	c.Edit("shared", func(g *awstest.Group) { g.Desired = 7 })
	w.AwaitEvent("shared", string(policy.ForeignWriter))
	awaitDesired(t, c, "shared", 2)
	c.Edit("shared", func(g *awstest.Group) { g.Min, g.Desired = 4, 4 })
	w.Await("shared", policy.ScalingLimited, "PlatformMin", "")
	if got := c.Look("shared").Desired; got != 4 {
		t.Errorf("desired capacity = %d, want the group's minimum of 4", got)
	}
}

// stale checks that hpad neither reports a manual change nor writes again if AWS returns the state from before hpad's
// last write. A later manual change must be reported.
func stale(t *testing.T, c *awstest.Cloud, l *world.Load) {
	c.Add(awstest.Group{Name: "late", Max: 100, Desired: 2, ReadLag: 3 * time.Second})
	l.Queue("late", 20)
	w := world.New(t, fleet(c, c.Credentials(t), "")+l.Source()+queued("late", 1, 10))
	w.Passes("late", 2)
	for writes, count := range []int{5, 3} {
		l.Queue("late", float64(10*count))
		awaitDesired(t, c, "late", count)
		w.Passes("late", 6)
		if got := w.View("late").Status; got.CurrentReplicas != int32(count) || got.DesiredReplicas != int32(count) {
			t.Errorf("current replicas = %d and desired replicas = %d, want %d", got.CurrentReplicas, got.DesiredReplicas, count)
		}
		if n := world.Told(w.View("late").Events, string(policy.ForeignWriter)); n != 0 || c.Writes() != writes+1 {
			t.Errorf("writes = %d and ForeignWriter events = %d, want %d and 0", c.Writes(), n, writes+1)
		}
	}
	c.Edit("late", func(g *awstest.Group) { g.Desired = 7 })
	w.AwaitEvent("late", string(policy.ForeignWriter))
	awaitDesired(t, c, "late", 3)
}

// vanishing checks that responses that omit most of the instances do not cause a scale-down.
func vanishing(t *testing.T, c *awstest.Cloud, l *world.Load) {
	c.Add(awstest.Group{Name: world.Ghost, Max: 100, Desired: world.Present})
	world.Vanishing{
		Fleet: fleet(c, c.Credentials(t), ""), Target: fmt.Sprintf(`{ fleet = "cloud", group = %q }`, world.Ghost),
		Lie: func(rounds int) {
			c.Edit(world.Ghost, func(g *awstest.Group) {
				g.Lies, g.Lie = rounds, func(g *awstest.Group) { g.Desired, g.Instances = 1, g.Instances[:1] }
			})
		},
		Lose:  func() { c.Edit(world.Ghost, func(g *awstest.Group) { g.Desired = world.Left }) },
		Count: func() int { return c.Look(world.Ghost).Desired }, Writes: c.Writes,
	}.Run(t, l)
}
