package crash

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/targets/drain"
	"github.com/hpad/hpad/test/aws/awstest"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// machines is an Auto Scaling group whose instances are Nomad clients. The metadata of each node
// contains the instance ID.
type machines struct {
	cloud
	*testing.T
	cluster *nomadtest.Cluster
	// ids lists the instance IDs, sorted.
	ids    []string
	agents map[string]*nomadtest.Agent
	load   *world.Load
	name   string
	// unfinished is the path of a file. Allocations do not stop while it exists.
	unfinished string
}

// newMachines starts a group with the given number of instances. name is the name of its
// autoscaler.
func newMachines(t *testing.T, l *world.Load, name string, size int) *machines {
	t.Helper()
	m := &machines{T: t, agents: map[string]*nomadtest.Agent{}, load: l, name: name}
	// Terminated instances remain until awaitPurge stops their agent.
	m.cloud = newAWS(t, size, time.Hour)
	_, m.ids = m.observe()
	m.cluster = nomadtest.StartServers(t, 1, nomadtest.Options{})
	for _, id := range m.ids {
		m.agents[id] = m.cluster.AddClient(t, map[string]string{"instance": id})
	}
	l.Queue(name, float64(10*size))
	l.AwaitQueue(t, name)
	return m
}

func (m *machines) start() *program.Program {
	m.Helper()
	drains := "kind = \"nomad\"\nfleet = \"jobs\"\nnode_attribute = \"meta.instance\"\ndeadline = \"5m\"\n"
	h := program.New(m.T, fmt.Sprintf("[fleets.jobs]\nkind = \"nomad\"\naddress = %q\n", m.cluster.URL)+m.configuration(m.load, m.name, "newest", drains))
	h.Passes(m.name, 2)
	return h
}

// work runs a job with one allocation on each node. The allocations do not stop before finish.
func (m *machines) work() {
	m.Helper()
	m.unfinished = filepath.Join(m.TempDir(), "unfinished")
	if err := os.WriteFile(m.unfinished, nil, 0o600); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = os.Remove(m.unfinished) })
	script := fmt.Sprintf(`trap told=yes INT; while [ -z "$told" ] || [ -e %s ]; do sleep 0.2; done`, m.unfinished)
	m.cluster.Run(m.T, nomadtest.Job{ID: m.name, Count: len(m.ids), Script: script, Alter: func(job *nomadapi.Job) {
		group := job.TaskGroups[0]
		job.AddSpread(nomadapi.NewSpread("${node.unique.id}", 100, nil))
		patient, progress := 4*time.Minute, 10*time.Minute
		group.Tasks[0].KillTimeout, group.Update.ProgressDeadline = &patient, &progress
		strategy := nomadapi.DefaultMigrateStrategy()
		atOnce, healthy, check := len(m.ids), 100*time.Millisecond, "task_states"
		strategy.MaxParallel, strategy.MinHealthyTime, strategy.HealthCheck = &atOnce, &healthy, &check
		group.Migrate = strategy
	}})
	m.cluster.AwaitRunning(m.T, m.name, len(m.ids), patience)
}

func (m *machines) finish() {
	m.Helper()
	if err := os.Remove(m.unfinished); err != nil {
		m.Fatal(err)
	}
}

// node returns the Nomad node of an instance, or nil.
func (m *machines) node(id string) *nomadapi.Node {
	m.Helper()
	return m.cluster.NodeOf(m.T, m.agents[id].Name)
}

func (m *machines) awaitEligible(id string) {
	m.Helper()
	wait.For(m.T, patience, "eligible node of "+id, func() (string, bool) {
		node := m.node(id)
		if node == nil {
			return "the node is missing", false
		}
		return fmt.Sprintf("eligibility is %s, drain is %+v", node.SchedulingEligibility, node.DrainStrategy),
			node.SchedulingEligibility == nomadapi.NodeSchedulingEligible && node.DrainStrategy == nil
	})
}

// awaitDraining waits until hpad and Nomad drain n instances, and returns the operations by
// instance.
func (m *machines) awaitDraining(h *program.Program, n int) map[string]drain.Operation {
	m.Helper()
	operations := map[string]drain.Operation{}
	wait.For(m.T, patience, fmt.Sprintf("%d draining nodes", n), func() (string, bool) {
		view := h.View(m.name)
		draining := 0
		for _, op := range view.Drains {
			operations[op.Instance.ID] = op
			node := m.node(op.Instance.ID)
			if op.State == drain.Draining && node != nil && node.DrainStrategy != nil && node.SchedulingEligibility == nomadapi.NodeSchedulingIneligible {
				draining++
			}
		}
		return fmt.Sprintf("operations are %+v, %d nodes are draining", view.Drains, draining), draining == n && len(view.Drains) == n
	})
	return operations
}

// awaitPurge waits until an instance is being terminated, stops its agent and waits until hpad has
// purged the node.
func (m *machines) awaitPurge(id string) {
	m.Helper()
	wait.For(m.T, patience, "termination of "+id, func() (string, bool) {
		_, staying := m.observe()
		return fmt.Sprintf("%v stay", staying), !slices.Contains(staying, id)
	})
	m.agents[id].Kill()
	m.aws.Edit("pool", func(g *awstest.Group) {
		for _, instance := range g.Instances {
			if instance.ID == id {
				instance.Turns = time.Now()
			}
		}
	})
	wait.For(m.T, patience, "purge of the node of "+id, func() (string, bool) {
		node := m.node(id)
		return fmt.Sprintf("the node is %+v", node), node == nil
	})
}

// awaitOutcome waits until the operations have ended with the given outcome. Their IDs, deadlines
// and start times must be unchanged.
func (m *machines) awaitOutcome(h *program.Program, begun map[string]drain.Operation, outcome drain.Outcome) {
	m.Helper()
	wait.For(m.T, patience, fmt.Sprintf("operations with the outcome %s", outcome), func() (string, bool) {
		now := h.View(m.name).Drains
		for _, op := range now {
			if was := begun[op.Instance.ID]; op.ID != was.ID || !op.Deadline.Equal(was.Deadline) || !op.Started.Equal(was.Started) {
				m.Fatalf("got operation %+v, want %+v", op, was)
			}
			if op.State != drain.Ended || op.Outcome != outcome {
				return fmt.Sprintf("%+v", op), false
			}
		}
		return fmt.Sprintf("%d operations have ended", len(now)), len(now) == len(begun)
	})
	m.wantShown(h, "describe", begun, fmt.Sprintf("%s at ", outcome))
}

// wantShown checks that the output of a command contains, for each instance, a line with its ID and
// the given words.
func (m *machines) wantShown(h *program.Program, command string, operations map[string]drain.Operation, words string) {
	m.Helper()
	output := h.Says(command, m.name)
	for id := range operations {
		found := false
		for line := range strings.Lines(output) {
			found = found || strings.Contains(line, id) && strings.Contains(line, words)
		}
		if !found {
			m.Errorf("output of hpad %s has no line with %s and %q:\n%s", command, id, words, output)
		}
	}
}

// TestDrain kills hpad while two of three Nomad nodes of an Auto Scaling group are draining. The
// next process must continue the same operations and terminate each instance exactly once.
func TestDrain(t *testing.T) {
	soak.Complete(t)
	l := world.NewLoad(t)
	m := newMachines(t, l, "resumed", 3)
	m.work()
	h := m.start()
	l.Queue(m.name, 10)
	begun := m.awaitDraining(h, 2)
	h.Kill()
	h.Start()
	h.Passes(m.name, 3)
	for id, op := range m.awaitDraining(h, 2) {
		if was := begun[id]; op.ID != was.ID || !op.Deadline.Equal(was.Deadline) {
			t.Errorf("got operation %+v after a restart, want %+v", op, was)
		}
	}
	m.wantShown(h, "explain", begun, "draining since ")
	m.wantShown(h, "describe", begun, "draining since ")
	if taken, _ := m.taken(); len(taken) > 0 {
		t.Errorf("instances terminated before the end of the drain: %v", taken)
	}

	m.finish()
	for id := range begun {
		m.awaitPurge(id)
	}
	m.awaitOutcome(h, begun, drain.Terminated)
	h.Passes(m.name, 3)
	taken, most := m.taken()
	if want := slices.Sorted(maps.Keys(begun)); !slices.Equal(taken, want) || most != 1 {
		t.Errorf("got terminations of %v with at most %d per instance, want one for each of %v", taken, most, want)
	}
	left := slices.DeleteFunc(slices.Clone(m.ids), func(id string) bool { return slices.Contains(taken, id) })
	if wanted, staying := m.observe(); wanted != 1 || !slices.Equal(staying, left) {
		t.Errorf("got count %[2]d and instances %[1]v, want 1 and %[3]v", staying, wanted, left)
	}
	if n := m.aws.Calls()["SetDesiredCapacity"]; n > 0 {
		t.Errorf("SetDesiredCapacity was called %d times, want 0", n)
	}
	m.awaitEligible(left[0])
	m.cluster.AwaitRunning(t, m.name, 3, patience) // all allocations on the remaining node
}
