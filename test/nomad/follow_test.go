package nomad

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/nomad"
	"github.com/hpad/hpad/test/nomad/nomadtest"
	"github.com/hpad/hpad/test/wait"
)

// TestFollows checks that a fleet that reads only changed jobs returns the same readings as a new
// fleet, which reads all jobs. Meanwhile, jobs are scaled, deployed, stopped, restarted and purged,
// and allocations fail, are stopped and are restarted.
func TestFollows(t *testing.T) {
	t.Parallel()
	agent := nomadtest.Start(t, nomadtest.Options{})
	const jobs, changes = 30, 40
	job := func(n, count int) nomadtest.Job {
		j := nomadtest.Job{ID: fmt.Sprintf("moving-%02d", n), Count: count, Deployed: n%3 == 0}
		if n%5 == 1 {
			j.Script = "sleep 7; exit 3" // restarted repeatedly
		}
		return j
	}
	var refs []targets.Ref
	for n := range jobs {
		agent.Run(t, job(n, 1+n%3))
		refs = append(refs, targets.Ref{Fleet: "prod", Name: job(n, 0).ID + "/app"})
	}
	c := &nomad.Config{Address: agent.URL, Timeout: patience}
	c.SetDefaults()
	open := func() *nomad.Fleet {
		f, err := nomad.New("prod", c, targets.Env{})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	read := func(f *nomad.Fleet) string {
		readings, err := f.Snapshot(t.Context(), refs)
		if err != nil {
			t.Fatal(err)
		}
		return state(refs, readings)
	}
	whole := func() string {
		f := open()
		defer func() { _ = f.Close() }()
		return read(f)
	}
	moving := open()
	t.Cleanup(func() { _ = moving.Close() })
	random := rand.New(rand.NewPCG(1, 2))
	for n := range changes {
		change(t, agent, job, random)
		// If full reads before and after are equal, no change occurred in between.
		wait.For(t, patience, fmt.Sprintf("period without changes after change %d", n), func() (string, bool) {
			before := whole()
			got := read(moving)
			if whole() != before {
				return "the jobs keep changing", false
			}
			if got != before {
				t.Fatalf("after %d changes, readings of changed jobs:\n%s\nreadings of all jobs:\n%s", n, got, before)
			}
			return "", true
		})
	}
}

// change changes a random job.
func change(t *testing.T, agent *nomadtest.Agent, job func(n, count int) nomadtest.Job, random *rand.Rand) {
	t.Helper()
	n, count := random.IntN(30), random.IntN(5)
	id := job(n, 0).ID
	var allocs []*nomadapi.AllocationListStub
	for _, stub := range list(t, agent, id) {
		if stub.ClientStatus == nomadapi.AllocClientStatusRunning {
			allocs = append(allocs, stub)
		}
	}
	var err error
	switch kind := random.IntN(6); {
	case kind == 0 && len(allocs) > 0:
		_, err = agent.Client.Allocations().Stop(&nomadapi.Allocation{ID: allocs[0].ID}, nil)
	case kind == 1:
		_, _, err = agent.Client.Jobs().Deregister(id, false, nil)
	case kind == 2:
		if _, _, err = agent.Client.Jobs().Deregister(id, true, nil); err == nil {
			agent.Run(t, job(n, count))
		}
	default:
		agent.Run(t, job(n, count))
	}
	if err != nil {
		t.Logf("change %s: %v", id, err) // rejected, for example because a deployment is in progress
	}
	time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
}

// list returns the allocations of a job.
func list(t *testing.T, agent *nomadtest.Agent, id string) []*nomadapi.AllocationListStub {
	t.Helper()
	allocs, _, err := agent.Client.Jobs().Allocations(id, true, nil)
	if err != nil {
		t.Logf("list the allocations of %s: %v", id, err)
	}
	return allocs
}

// state formats readings without the fields that depend on earlier readings.
func state(refs []targets.Ref, readings map[targets.Ref]targets.Reading) string {
	var text strings.Builder
	for _, ref := range refs {
		reading := readings[ref]
		var instances []string
		for n, instance := range reading.Instances {
			started := ""
			if instance.Phase == policy.PhaseRunning {
				started = instance.StartedAt.UTC().String()
			}
			location := reading.Locations.At(n)
			location.UnreadyReason = ""
			instances = append(instances, fmt.Sprint(instance.ID[:8], instance.Phase, instance.Deleting, started, location, instance.Tasks))
		}
		slices.Sort(instances)
		fmt.Fprintln(&text, ref, reading.Err, reading.SpecReplicas, reading.StatusReplicas, reading.Version, reading.Hold != nil, reading.Notices, instances)
	}
	return text.String()
}
