package nomad

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"
	"go.uber.org/zap/zaptest"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/clock"
	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/targets/nomad/drainer"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// machines is a target with two instances that are Nomad clients, and a fleet that drains them.
type machines struct {
	*testing.T
	cluster  *nomadtest.Cluster
	agents   map[string]*nomadtest.Agent
	platform targettest.Removable
	store    *targettest.Store
	drainer  *drainer.Drainer
	ref      targets.Ref
	fleet    *drain.Fleet
}

func newMachines(t *testing.T) *machines {
	t.Helper()
	m := &machines{T: t, platform: targettest.Removable{Memory: targettest.NewMemory("cloud")}, store: &targettest.Store{}}
	m.cluster = nomadtest.StartCluster(t, 1)
	m.agents = map[string]*nomadtest.Agent{"pool-0": m.cluster.Agent, "pool-1": m.cluster.AddClient(t, nil)}
	m.ref = m.platform.Add("pool", targettest.MemoryTarget{Replicas: 2, StopDelay: time.Hour, Edit: func(reading *targets.Reading) {
		// Only the names distinguish the machines, because both agents have the same address.
		var locations targets.LocationList
		for _, instance := range reading.Instances {
			locations = append(locations, targets.Location{Name: m.agents[instance.ID].Name})
		}
		reading.Locations = locations
	}})
	c := &nomad.Config{Address: m.cluster.Servers[0].URL, Timeout: patience}
	c.SetDefaults()
	nodes, err := nomad.New("prod", c, targets.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nodes.Close() })
	m.drainer = drainer.New(nodes, drainer.Config{})
	m.open()
	t.Cleanup(func() { _ = m.fleet.Close() })
	return m
}

func (m *machines) open() {
	m.Helper()
	m.fleet = drain.Wrap(m.platform, m.store, clock.New(clock.System{}), zaptest.NewLogger(m.T))
	m.fleet.Configure(map[targets.Ref]drain.Options{m.ref: {
		Victims: drain.EmptyNomadNodes, Drainer: m.drainer, Deadline: 5 * time.Minute, Interval: 500 * time.Millisecond,
	}})
	if err := m.fleet.Start(m.Context()); err != nil {
		m.Fatal(err)
	}
}

func (m *machines) scale(n int32) {
	m.Helper()
	if err := m.fleet.SetReplicas(m.Context(), m.ref, n, "", "test"); err != nil {
		m.Fatal(err)
	}
	readings, err := m.fleet.Snapshot(m.Context(), []targets.Ref{m.ref})
	if reading := readings[m.ref]; err != nil || reading.SpecReplicas != n || reading.StatusReplicas != n {
		m.Fatalf("spec = %d and status = %d, %v after SetReplicas(%d)", reading.SpecReplicas, reading.StatusReplicas, err, n)
	}
}

// node returns the Nomad node of an instance, or nil.
func (m *machines) node(id string) *nomadapi.Node {
	m.Helper()
	return m.cluster.Servers[0].NodeOf(m.T, m.agents[id].Name)
}

// await waits for the drain state and the eligibility of an instance's node.
func (m *machines) await(id string, draining, ineligible bool) {
	m.Helper()
	wait.For(m.T, 2*patience, fmt.Sprintf("node of %s with draining = %v and ineligible = %v", id, draining, ineligible), func() (string, bool) {
		node := m.node(id)
		if node == nil {
			return "no node", false
		}
		is := node.SchedulingEligibility == nomadapi.NodeSchedulingIneligible
		return fmt.Sprintf("draining = %v, ineligible = %v", node.DrainStrategy != nil, is), (node.DrainStrategy != nil) == draining && is == ineligible
	})
}

// running returns the number of a job's running allocations by instance.
func (m *machines) running(job string) map[string]int {
	m.Helper()
	allocs, _, err := m.cluster.Servers[0].Client.Jobs().Allocations(job, false, nil)
	if err != nil {
		m.Fatal(err)
	}
	counts := map[string]int{}
	for _, alloc := range allocs {
		for id, agent := range m.agents {
			if alloc.NodeName == agent.Name && alloc.ClientStatus == nomadapi.AllocClientStatusRunning && alloc.DesiredStatus == nomadapi.AllocDesiredStatusRun {
				counts[id]++
			}
		}
	}
	return counts
}

// TestDrain checks that a drain that cannot finish is canceled, even after a restart of hpad. A
// drain that can finish must move the allocations, remove the machine and purge its node.
func TestDrain(t *testing.T) {
	t.Parallel()
	m := newMachines(t)
	server := m.cluster.Servers[0]
	// The job needs one node for each of its two allocations, so a drain of a node cannot finish.
	server.Run(t, nomadtest.Job{ID: "pinned", Count: 2, Alter: func(job *nomadapi.Job) {
		job.Constrain(nomadapi.NewConstraint("", nomadapi.ConstraintDistinctHosts, "true"))
		quickMigration(job)
	}})
	server.AwaitRunning(t, "pinned", 2, 2*patience)
	m.scale(1)
	victim := m.fleet.Draining(m.ref)[0].Instance.ID
	m.await(victim, true, true)
	if err := m.fleet.Close(); err != nil {
		t.Fatal(err)
	}
	m.open()
	m.scale(2)
	m.await(victim, false, false)
	if removals := m.platform.Removals(); len(removals) != 0 {
		t.Fatalf("removed instances = %+v, want none", removals)
	}
	if _, _, err := server.Client.Jobs().Deregister("pinned", true, nil); err != nil {
		t.Fatal(err)
	}

	server.Run(t, nomadtest.Job{ID: "work", Count: 4, Alter: func(job *nomadapi.Job) {
		job.AddSpread(nomadapi.NewSpread("${node.unique.id}", 100, nil))
		quickMigration(job)
	}})
	server.Run(t, nomadtest.Job{ID: "lonely", Count: 1, Alter: func(job *nomadapi.Job) {
		job.Constrain(nomadapi.NewConstraint("${node.unique.name}", "=", m.agents["pool-0"].Name))
	}})
	server.AwaitRunning(t, "work", 4, 2*patience)
	server.AwaitRunning(t, "lonely", 1, 2*patience)
	if counts := m.running("work"); counts["pool-0"] != 2 || counts["pool-1"] != 2 {
		t.Fatalf("allocations = %v, want two on each node", counts)
	}
	instances := []drain.Instance{
		{ID: "pool-0", Name: m.agents["pool-0"].Name}, {ID: "pool-1", Name: m.agents["pool-1"].Name}, {ID: "unknown"},
	}
	want := map[string]int{"pool-0": 3, "pool-1": 2}
	wait.For(t, patience, fmt.Sprintf("Allocations() of %v", want), func() (string, bool) {
		counts, err := m.drainer.Allocations(t.Context(), instances) // may still include the purged job
		return fmt.Sprintf("allocations are %v, %v", counts, err), err == nil && maps.Equal(counts, want)
	})
	m.scale(1)
	wait.For(t, 4*patience, "removal", func() (string, bool) {
		return fmt.Sprintf("%+v", m.fleet.Draining(m.ref)), len(m.platform.Removals()) > 0
	})
	if removal := m.platform.Removals()[0]; !slices.Equal(removal.Taken, []string{"pool-1"}) {
		t.Errorf("removed instances = %v, want pool-1, which has the fewest allocations", removal.Taken)
	}
	if counts := m.running("work"); counts["pool-1"] != 0 {
		t.Errorf("allocations at the removal of pool-1 = %v, want none on pool-1", counts)
	}
	server.AwaitRunning(t, "work", 4, 2*patience)
	m.agents["pool-1"].Kill()
	m.platform.Change("pool", func(target *targettest.MemoryTarget) { target.StopDelay = 0 })
	wait.For(t, 2*patience, "purge of the node", func() (string, bool) {
		return fmt.Sprintf("%+v", m.fleet.Draining(m.ref)), m.node("pool-1") == nil
	})
	m.await("pool-0", false, false)
}

// quickMigration makes all allocations of a job migrate in parallel without delay.
func quickMigration(job *nomadapi.Job) {
	strategy := nomadapi.DefaultMigrateStrategy()
	parallel, healthy, check := 4, 100*time.Millisecond, "task_states"
	strategy.MaxParallel, strategy.MinHealthyTime, strategy.HealthCheck = &parallel, &healthy, &check
	job.TaskGroups[0].Migrate = strategy
}
