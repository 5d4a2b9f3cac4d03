package clouds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/azure/azuretest"
	"github.com/hpad/hpad/test/gce/gcetest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for hpad, a cloud and Nomad. On an idle host
// they need only seconds.
const patience = 2 * world.Patience

// pool is a group of two machines in a cloud.
type pool struct {
	// fleet is the configuration of a fleet named "cloud". target is the TOML of the group.
	fleet, target string
	// look returns the group's desired count and the IDs of the machines that are not being
	// removed, oldest first. hpad uses the same IDs.
	look func() (wanted int, staying []string)
	// finishDeletion completes the deletion of removed machines, which otherwise takes forever.
	finishDeletion func()
}

func newAWS(t *testing.T) pool {
	c := awstest.New(t)
	c.Add(awstest.Group{Name: "pool", Max: 10, Desired: 2, Stop: time.Hour})
	return pool{
		fleet: fmt.Sprintf("[fleets.cloud]\nkind = \"awsasg\"\nregion = %q\ncredentials_file = %q\nendpoints = { auto_scaling = %q, ec2 = %q, sts = %q }\n",
			awstest.Region, c.Credentials(t), c.URL, c.URL, c.URL),
		target: `{ fleet = "cloud", group = "pool" }`,
		look: func() (int, []string) {
			group := c.Look("pool")
			var staying []string
			for _, instance := range group.Instances {
				if instance.State != awstest.StateTerminating {
					staying = append(staying, instance.ID)
				}
			}
			return group.Desired, staying
		},
		finishDeletion: func() {
			c.Edit("pool", func(g *awstest.Group) {
				for _, instance := range g.Instances {
					if instance.State == awstest.StateTerminating {
						instance.Turns = time.Now()
					}
				}
			})
		},
	}
}

func newGCE(t *testing.T) pool {
	s := gcetest.Start(t)
	group := gcetest.Group{Zone: "us-east1-b", Name: "pool", Size: 2, Stop: time.Hour}
	s.Add(group)
	return pool{
		fleet: fmt.Sprintf("[fleets.cloud]\nkind = \"gcemig\"\nproject = %q\nendpoint = %q\ncredentials_file = %q\n",
			s.Project, s.Endpoint, s.CredentialsFile(t)),
		target:         `{ fleet = "cloud", group = "pool", zone = "us-east1-b" }`,
		look:           func() (int, []string) { return s.Size(t, group.Target()), s.Running(t, group.Target()) },
		finishDeletion: func() { s.SetTimes(t, group.Target(), 0, 0) },
	}
}

func newAzure(t *testing.T) pool {
	s := azuretest.New(t)
	s.Add(azuretest.Set{Group: "shop", Name: "pool", Capacity: 2, DeleteDelay: time.Hour})
	return pool{
		fleet:  s.TOML("cloud", "set_writes_per_minute = 6000\n"),
		target: `{ fleet = "cloud", resource_group = "shop", scale_set = "pool" }`,
		look: func() (int, []string) {
			var staying []string
			capacity := azuretest.Look(s, "shop/pool", func(set *azuretest.Set) int {
				for _, machine := range set.Living() {
					staying = append(staying, set.ID(machine))
				}
				return set.Capacity
			})
			return capacity, staying
		},
		finishDeletion: func() {
			s.Change("shop/pool", func(set *azuretest.Set) {
				for _, machine := range set.Machines {
					if !machine.Gone.IsZero() {
						machine.Gone = time.Now()
					}
				}
			})
		},
	}
}

// TestDrain shrinks a group of two machines in each cloud. The machines are the clients of a real
// Nomad cluster with one server.
func TestDrain(t *testing.T) {
	l := world.NewLoad(t)
	// The subtests must end before Prometheus is stopped.
	t.Run("clouds", func(t *testing.T) {
		for name, start := range map[string]func(t *testing.T) pool{"aws": newAWS, "gce": newGCE, "azure": newAzure} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name != "aws" {
					soak.Complete(t)
				}
				drains(t, l, name, start(t))
			})
		}
	})
}

// drains checks that hpad removes the machine whose node runs fewer allocations. The machine must
// remain until its allocations have moved to the other machine. hpad must then remove it by ID and
// purge its node.
func drains(t *testing.T, l *world.Load, name string, p pool) {
	_, ids := p.look()
	kept, victim := ids[0], ids[1] // by age, the victim would be ids[0]
	cluster := nomadtest.StartServers(t, 1, nomadtest.Options{})
	agents := map[string]*nomadtest.Agent{}
	for _, id := range ids {
		agents[id] = cluster.AddClient(t, map[string]string{"machine": id})
	}
	unfinished := filepath.Join(t.TempDir(), "unfinished")
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(unfinished) })
	cluster.Run(t, nomadtest.Job{ID: "pinned", Count: 2, Alter: func(job *nomadapi.Job) {
		job.Constrain(nomadapi.NewConstraint("${meta.machine}", "=", kept))
	}})
	cluster.Run(t, nomadtest.Job{ID: "moving", Count: 1, Script: slowStop(unfinished), Alter: func(job *nomadapi.Job) {
		job.AddAffinity(nomadapi.NewAffinity("${meta.machine}", "=", victim, 100))
		stopsSlowly(job)
	}})
	cluster.AwaitRunning(t, "pinned", 2, patience)
	cluster.AwaitRunning(t, "moving", 1, patience)

	l.Queue(name, 20)
	l.AwaitQueue(t, name)
	w := world.New(t, fmt.Sprintf("[fleets.jobs]\nkind = \"nomad\"\naddress = %q\n", cluster.URL)+p.fleet+l.Source()+
		strings.Replace(world.Queued(name, p.target, 1, 9), "min_replicas", "victims = \"empty-nomad-nodes\"\nmin_replicas", 1)+
		fmt.Sprintf("[autoscalers.%s.drain]\nkind = \"nomad\"\nfleet = \"jobs\"\nnode_attribute = \"meta.machine\"\ninterval = \"1s\"\n", name))
	w.Passes(name, 2)
	l.Queue(name, 10)
	wait.For(t, patience, "drain of the node of "+victim, func() (string, bool) {
		node := cluster.NodeOf(t, agents[victim].Name)
		return fmt.Sprintf("node = %+v, operations = %+v", node, w.View(name).Drains),
			node != nil && node.DrainStrategy != nil && node.SchedulingEligibility == nomadapi.NodeSchedulingIneligible
	})
	w.Passes(name, 2)
	if wanted, staying := p.look(); wanted != 2 || len(staying) != 2 {
		t.Errorf("machines = %v with count %d while the node drains, want both with count 2", staying, wanted)
	}
	if status := w.View(name).Status; status.CurrentReplicas != 1 || status.DesiredReplicas != 1 {
		t.Errorf("hpad shows %d of %d replicas while the node drains, want the victim not to be counted", status.CurrentReplicas, status.DesiredReplicas)
	}

	if err := os.Remove(unfinished); err != nil {
		t.Fatal(err)
	}
	wait.For(t, patience, "removal of "+victim, func() (string, bool) {
		wanted, staying := p.look()
		return fmt.Sprintf("machines = %v with count %d", staying, wanted), wanted == 1 && slices.Equal(staying, []string{kept})
	})
	cluster.AwaitRunning(t, "moving", 1, patience)
	agents[victim].Kill()
	p.finishDeletion()
	wait.For(t, patience, "purge of the node of "+victim, func() (string, bool) {
		node := cluster.NodeOf(t, agents[victim].Name)
		return fmt.Sprintf("node = %+v", node), node == nil
	})
	wait.For(t, patience, "end of the operation", func() (string, bool) {
		operations := w.View(name).Drains
		return fmt.Sprintf("operations = %+v", operations),
			len(operations) == 1 && operations[0].State == drain.Ended && operations[0].Outcome == drain.Terminated
	})
	if node := cluster.NodeOf(t, agents[kept].Name); node == nil || node.DrainStrategy != nil || node.SchedulingEligibility != nomadapi.NodeSchedulingEligible {
		t.Errorf("node of %s = %+v, want an unchanged node", kept, node)
	}
}

// slowStop returns a script that exits after it has received SIGINT and a file has been removed.
func slowStop(unfinished string) string {
	return fmt.Sprintf(`trap stopped=yes INT; while [ -z "$stopped" ] || [ -e %s ]; do sleep 0.2; done`, unfinished)
}

// stopsSlowly gives a job's allocations time to stop and makes their replacements healthy quickly.
func stopsSlowly(job *nomadapi.Job) {
	patient, progress := 4*time.Minute, 10*time.Minute
	group := job.TaskGroups[0]
	group.Tasks[0].KillTimeout, group.Update.ProgressDeadline = &patient, &progress
	strategy := nomadapi.DefaultMigrateStrategy()
	healthy, check := 100*time.Millisecond, "task_states"
	strategy.MinHealthyTime, strategy.HealthCheck = &healthy, &check
	group.Migrate = strategy
}
