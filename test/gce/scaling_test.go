package gce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hpad/hpad/test/gce/gcetest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for hpad.
const patience = world.Patience

// TestGCE runs the cases that can share one Prometheus.
func TestGCE(t *testing.T) {
	t.Parallel()
	l := world.NewLoad(t)
	t.Run("cases", func(t *testing.T) { // must end before the cleanup stops Prometheus
		for name, run := range map[string]func(t *testing.T, p *project){
			"queue":            queue,
			"throttled minute": throttled,
			"lost responses":   lostResponses,
			"chosen victims":   removalOrder,
			"vanishing":        vanishing,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name != "queue" {
					soak.Complete(t)
				}
				group := strings.ReplaceAll(name, " ", "-")
				server := gcetest.Start(t)
				run(t, &project{Server: server, t: t, load: l, name: group, target: "zones/us-east1-b/" + group})
			})
		}
	})
}

// project is a GCE project with one group and an autoscaler of the same name.
type project struct {
	*gcetest.Server
	t            *testing.T
	load         *world.Load
	name, target string
}

func (p *project) add(size int, boot time.Duration) {
	p.Add(gcetest.Group{Zone: "us-east1-b", Name: p.name, Size: size, Boot: boot, Stop: 500 * time.Millisecond})
}

// fleet returns the configuration of a fleet named "gce".
func (p *project) fleet() string { return fleet("gce", p.Server, p.CredentialsFile(p.t), "") }

// fleet returns the configuration of a fleet with additional keys.
func fleet(name string, s *gcetest.Server, credentials, extra string) string {
	return fmt.Sprintf("[fleets.%s]\nkind = \"gcemig\"\nproject = %q\nendpoint = %q\ncredentials_file = %q\ntimeout = \"3s\"\n%s",
		name, s.Project, s.Endpoint, credentials, extra)
}

// queued returns the configuration of an autoscaler that requires one instance per 10 queued
// items.
func (p *project) queued(minimum, maximum int) string {
	return p.fleet() + p.load.Source() + world.Queued(p.name, fmt.Sprintf(`{ fleet = "gce", group = %q, zone = "us-east1-b" }`, p.name), minimum, maximum)
}

// awaitRunning waits until the group has size n and n running instances.
func (p *project) awaitRunning(n int) {
	p.t.Helper()
	wait.For(p.t, patience, fmt.Sprintf("%d running instances of %s", n, p.name), func() (string, bool) {
		running, size := len(p.Running(p.t, p.target)), p.Size(p.t, p.target)
		return fmt.Sprintf("%d of %d running", running, size), running == n && size == n
	})
}

// queue checks that a group follows its queue, to zero and back.
func queue(t *testing.T, p *project) {
	p.add(1, 0)
	p.load.Queue(p.name, 45)
	world.New(t, p.queued(0, 8))
	p.awaitRunning(5)
	p.load.Queue(p.name, 100)
	p.awaitRunning(8)
	p.load.Queue(p.name, 0)
	p.awaitRunning(0)
	p.load.Queue(p.name, 11)
	p.awaitRunning(2)
}

// throttled checks that throttling of one project for a minute does not affect a second project.
func throttled(t *testing.T, p *project) {
	other := gcetest.Start(t)
	servers := map[string]*gcetest.Server{"spent": p.Server, "spared": other}
	m := world.Minute{
		Fleets: fleet("spent", p.Server, p.CredentialsFile(t), "") + fleet("spared", other, other.CredentialsFile(t), "writes_per_second = 0.5\n"),
		Target: func(fleet, name string) string {
			return fmt.Sprintf(`{ fleet = %q, group = %q, zone = "us-east1-b" }`, fleet, name)
		},
		Count: func(fleet, name string) int { return servers[fleet].Size(t, "zones/us-east1-b/"+name) },
		Spend: p.Spend, Refused: p.Refused, Writes: p.Writes, Words: "Quota exceeded for quota metric 'Read requests'", Most: 12,
	}
	for n := range 6 { // hpad may change five of them at the same time
		m.Spared = append(m.Spared, fmt.Sprintf("spared-%c", 'a'+n))
		other.Add(gcetest.Group{Zone: "us-east1-b", Name: m.Spared[n], Size: 1})
	}
	for _, name := range []string{world.Shrinking, world.Growing} {
		p.Add(gcetest.Group{Zone: "us-east1-b", Name: name, Size: world.Before})
	}
	m.Run(t, p.load)
}

// lostResponses checks that hpad executes a change only once even if its response is lost.
func lostResponses(t *testing.T, p *project) {
	p.add(1, 0)
	for _, method := range []string{"compute.instanceGroupManagers.resize", "compute.zoneOperations.get"} {
		p.Inject(gcetest.Fault{Method: method, Lose: true, Times: 2})
	}
	p.Inject(gcetest.Fault{Method: "compute.instanceGroupManagers.aggregatedList", Truncate: true, Times: 2})
	p.Inject(gcetest.Fault{Method: "compute.instanceGroupManagers.listManagedInstances", Drop: true, Times: 2})
	p.load.Queue(p.name, 40)
	w := world.New(t, p.queued(1, 8))
	p.awaitRunning(4)
	w.Passes(p.name, 2)
	if writes, machines := p.Writes(), p.Machines(); writes != 1 || machines != 4 {
		t.Errorf("writes = %d and new machines = %d, want 1 and 4", writes, machines)
	}
}

// removalOrder checks that hpad deletes machines in the configured order.
func removalOrder(t *testing.T, p *project) {
	group := func(name string) gcetest.Group {
		return gcetest.Group{Zone: "us-east1-b", Name: name, Size: 5, Watched: true, Stop: time.Second}
	}
	world.Chosen{
		Fleet: p.fleet(),
		Target: func(name string) string {
			return fmt.Sprintf(`{ fleet = "gce", group = %q, zone = "us-east1-b" }`, name)
		},
		Make: func(name string, unhealthy []int, _ int) []string {
			target := group(name).Target()
			p.Add(group(name))
			made := p.Running(t, target)
			for n, machine := range made {
				p.Age(t, target, machine, time.Duration(10-n)*time.Hour)
				if slices.Contains(unhealthy, n) {
					p.SetHealthOf(t, target, machine, "UNHEALTHY")
				}
			}
			return made
		},
		Match: "name",
		Stay:  func(name string) []string { return p.Running(t, group(name).Target()) },
		Count: func(name string) int { return p.Size(t, group(name).Target()) }, Writes: p.Writes,
	}.Run(t, p.load)
}

// vanishing checks that readings that omit most of the instances do not cause a scale-down.
func vanishing(t *testing.T, p *project) {
	target := "zones/us-east1-b/" + world.Ghost
	p.Add(gcetest.Group{Zone: "us-east1-b", Name: world.Ghost, Size: world.Present})
	world.Vanishing{
		Fleet: p.fleet(), Target: fmt.Sprintf(`{ fleet = "gce", group = %q, zone = "us-east1-b" }`, world.Ghost),
		Lie:   func(rounds int) { p.Lie(t, target, 1, rounds) },
		Lose:  func() { p.Resize(t, target, world.Left) },
		Count: func() int { return p.Size(t, target) }, Writes: p.Writes,
	}.Run(t, p.load)
}
