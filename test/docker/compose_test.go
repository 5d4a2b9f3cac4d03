package docker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// patience is the maximum time that the tests wait for hpad or the engine.
const patience = world.Patience

// site is an engine, with images and a load, that several cases share.
type site struct {
	*dockertest.Engine
	load *world.Load
}

func newSite(t *testing.T, options dockertest.Options) *site {
	t.Helper()
	s := &site{Engine: dockertest.Start(t, options), load: world.NewLoad(t)}
	s.ImportWorker(t, dockertest.Worker, "1")
	s.ImportWorker(t, "volumes:1", "volumes", "VOLUME /image")
	return s
}

// fleet returns the configuration of a fleet named "shop".
func (s *site) fleet(kind, extra string) string {
	return fmt.Sprintf("[fleets.shop]\nkind = %q\nhost = %q\nresource_interval = \"1s\"\ntimeout = \"20s\"\n%s\n", kind, s.Host(), extra)
}

// queued returns a fleet, a source and an autoscaler that scales the service web of a project to
// one replica per 10 queued items.
func (s *site) queued(project string, minimum, maximum int) string {
	return s.fleet("compose", "") + s.load.Source() +
		world.Queued(project, fmt.Sprintf(`{ fleet = "shop", project = %q, service = "web" }`, project), minimum, maximum)
}

// replicas returns all containers of a service, ordered by number.
func (s *site) replicas(t testing.TB, project, service string) []container.Summary {
	t.Helper()
	found, err := s.Client.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", "com.docker.compose.project="+project), filters.Arg("label", "com.docker.compose.service="+service))})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b container.Summary) int { return cmp.Compare(number(a), number(b)) })
	return found
}

// number returns the number that Compose gave a container, or 0.
func number(c container.Summary) int {
	n, _ := strconv.Atoi(c.Labels["com.docker.compose.container-number"])
	return n
}

// describe formats containers for test output.
func describe(found []container.Summary) string {
	var shown []string
	for _, c := range found {
		shown = append(shown, strings.Join(c.Names, " ")+" is "+c.State+", "+c.Status)
	}
	return "containers: " + strings.Join(shown, "; ")
}

// awaitReplicas waits until the service web has exactly n containers and all are running.
func (s *site) awaitReplicas(t testing.TB, project string, n int) []container.Summary {
	t.Helper()
	var found []container.Summary
	wait.For(t, patience, fmt.Sprintf("%d replicas of %s", n, project), func() (string, bool) {
		found = s.replicas(t, project, "web")
		stopped := slices.ContainsFunc(found, func(c container.Summary) bool { return c.State != "running" })
		return describe(found), len(found) == n && !stopped
	})
	return found
}

// stays checks that the service web still has n containers after the given number of evaluations.
func (s *site) stays(t testing.TB, w *world.World, project string, n, passes int) {
	t.Helper()
	w.Passes(project, passes)
	if found := s.replicas(t, project, "web"); len(found) != n {
		t.Errorf("replicas = %d after %d passes, want %d as before: %s", len(found), passes, n, describe(found))
	}
}

// TestCompose runs the cases that can share an engine.
func TestCompose(t *testing.T) {
	t.Parallel()
	onVersions(t, []scenario[site]{
		{"burn", both, burn},
		{"everything", both, everythingScales},
		{"halted", packaged, halted},
		{"failing", newest, failing},
		{"slow health", both, slowHealth},
		{"killed", newest, killed},
		{"count reset", packaged, countReset},
		{"moved tag", packaged, movedTag},
		{"labels", newest, labels},
		{"port range", packaged, rangeOfPorts},
		{"updated", packaged, updatedDuringScaleUp},
		{"removed", newest, removedDuringScaleUp},
	}, newSite)
}

// burn checks that a busy service grows to its maximum, and shrinks to its first replica when it
// is idle. Compose and the network must treat hpad's replicas like those that Compose created.
func burn(t *testing.T, s *site) {
	p := s.Project(t, "burn", `
services:
  web:
    image: worker:1
    cpus: 0.05
    mem_limit: 64m
    mem_reservation: 16m
    environment: { WORKER_CONTROL: /control }
    volumes: [./control:/control:ro]
    networks: { front: { aliases: [www] }, back: {} }
    stop_grace_period: 2s
  probe: { image: worker:1, networks: [front, back] }
networks: { front: {}, back: {} }
`)
	p.Write("control/burn", "0")
	p.Compose("up", "--detach", "--wait")
	first := s.awaitReplicas(t, "burn", 1)[0]
	w := world.New(t, s.fleet("compose", "")+`
[autoscalers.burn]
target       = { fleet = "shop", project = "burn", service = "web" }
min_replicas = 1
max_replicas = 3
[[autoscalers.burn.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 55
[[autoscalers.burn.metrics]]
type                   = "Resource"
resource               = "memory"
average_utilization    = 400
average_utilization_of = "limit"
[autoscalers.burn.behavior.scale_down]
stabilization_window = "3s"
`)
	p.Write("control/burn", "1")
	found := s.awaitReplicas(t, "burn", 3)
	awaitLogs(t, w, "burn")
	for i, c := range found {
		if want := fmt.Sprintf("/burn-web-%d", i+1); number(c) != i+1 || c.Names[0] != want {
			t.Errorf("replica %d: number = %d and name = %s, want name %s", i+1, number(c), c.Names[0], want)
		}
	}
	for _, name := range []string{"burn-web-2", "burn-web-3"} {
		compare(t, s.Engine, "burn-web-1", name)
	}
	s.resolves(t, found, "burn-probe-1", "web", "www")
	s.ownedByCompose(t, p, "web", 3)
	p.Write("control/burn", "0")
	if left := s.awaitReplicas(t, "burn", 1)[0]; left.ID != first.ID {
		t.Errorf("remaining replica %s (%s), want the first one, %s", left.Names, left.ID, first.ID)
	}
	p.Compose("down", "--timeout", "1")
	if left := s.replicas(t, "burn", "web"); len(left) > 0 {
		t.Errorf("after docker compose down: %s, want none", describe(left))
	}
}

// awaitLogs waits until hpad reads the last line of the output of an autoscaler's first instance.
func awaitLogs(t testing.TB, w *world.World, name string) {
	t.Helper()
	get := func(path string, to any) string {
		response := httptest.NewRecorder()
		w.Handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/api/v1/autoscalers/"+name+path, nil))
		_ = json.Unmarshal(response.Body.Bytes(), to)
		return response.Body.String()
	}
	wait.For(t, patience, "output of an instance", func() (string, bool) {
		var list struct{ Data api.InstanceList }
		if text := get("/instances", &list); len(list.Data.Instances) == 0 {
			return text, false
		}
		text := get("/logs?tail=1&instance="+list.Data.Instances[0].ID, nil)
		return text, text == "worker: ready\n"
	})
}

// resolves checks that, in a network shared with the container named by from, service names resolve
// to one address per replica and each replica's name resolves to that replica.
func (s *site) resolves(t testing.TB, replicas []container.Summary, from string, names ...string) {
	t.Helper()
	resolve := func(name string, want ...container.Summary) {
		addresses := map[string]bool{}
		for _, c := range want {
			for _, endpoint := range c.NetworkSettings.Networks {
				addresses[endpoint.IPAddress] = true
			}
		}
		got := strings.Fields(s.CLI(t, "exec", from, "/worker", "resolve", name))
		unexpected := slices.ContainsFunc(got, func(address string) bool { return !addresses[address] })
		if len(got) != len(want) || unexpected {
			t.Errorf("name %s resolves to %q, want one address for each of %d replicas: %q", name, got, len(want), slices.Sorted(maps.Keys(addresses)))
		}
	}
	for _, name := range names {
		resolve(name, replicas...)
	}
	for _, c := range replicas {
		resolve(strings.TrimPrefix(c.Names[0], "/"), c)
	}
}

// ownedByCompose checks that Compose treats the service's containers as its own: Compose must list
// all of them, and must not change any when it scales to the same number.
func (s *site) ownedByCompose(t testing.TB, p *dockertest.Project, service string, n int) {
	t.Helper()
	state := func() map[string]string {
		m := map[string]string{}
		for _, c := range s.replicas(t, p.Name, service) {
			inspected, err := s.Client.ContainerInspect(t.Context(), c.ID)
			if err != nil {
				t.Fatal(err)
			}
			m[c.ID] = inspected.Name + " started " + inspected.State.StartedAt
		}
		return m
	}
	before := state()
	if len(before) != n {
		t.Fatalf("containers of service %s = %d, want %d", service, len(before), n)
	}
	scale := fmt.Sprintf("%s=%d", service, n)
	for _, args := range [][]string{{"up", "--detach", "--no-recreate", "--scale", scale}, {"up", "--detach", "--scale", scale}, {"up", "--detach", "--no-deps", "--scale", scale, service}} {
		printed := p.Compose(args...)
		if after := state(); !maps.Equal(before, after) {
			t.Errorf("docker compose %s changed the containers:\n%v\n%v\n%s", args, before, after, printed.Err)
		}
	}
	listed := 0
	for line := range strings.Lines(p.Compose("ps", "--format", "json", service).Out) {
		var row struct{ ID, Name, Service, State string }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("docker compose ps: %v in %s", err, line)
		}
		if row.Service == service && row.State == "running" {
			listed++
		}
	}
	if listed != n {
		t.Errorf("docker compose ps lists %d containers, want %d", listed, n)
	}
	logs := p.Compose("logs", "--no-color", service).Out
	for _, c := range s.replicas(t, p.Name, service) {
		if prefix := fmt.Sprintf("%s-%d ", service, number(c)); !strings.Contains(logs, prefix) {
			t.Errorf("docker compose logs contains no line of %s:\n%s", prefix, logs)
		}
	}
}

// everythingScales checks that replicas of a service that uses every option equal those that
// Compose created, even after Compose has recreated the service. Scaling down must leave no
// volumes behind.
func everythingScales(t *testing.T, s *site) {
	p := newEverything(t, s.Engine, "all", 18080)
	p.Compose("up", "--detach", "--wait")
	s.load.Queue("all", 20)
	world.New(t, s.queued("all", 1, 5)+"[fleets.shop.services.\"all/web\"]\ncopy_paths = [\"/etc/content.conf\"]\n")
	for _, step := range []string{"made", "recreated"} {
		if step == "recreated" {
			// The recreated replicas inherit the anonymous volumes.
			p.Compose("up", "--detach", "--wait", "--force-recreate", "--scale", "web=2")
		}
		s.load.Queue("all", 40)
		s.awaitHealthy(t, "all", "web", 4)
		var volumes []string
		for _, name := range []string{"all-web-3", "all-web-4"} {
			_, own := inspect(t, s.Engine, name)
			if volumes = append(volumes, own...); len(own) != 3 {
				t.Errorf("%s has %d anonymous volumes, want those of /scratch, /long and the image", name, len(own))
			}
			if n := compare(t, s.Engine, "all-web-1", name); n < 200 {
				t.Errorf("compared fields = %d, want more", n)
			}
		}
		s.ownedByCompose(t, p, "web", 4)
		s.load.Queue("all", 20)
		for _, c := range s.awaitReplicas(t, "all", 2) {
			if number(c) > 2 {
				t.Errorf("replica %d remains, want the lowest numbers", number(c))
			}
		}
		wait.For(t, patience, "removal of the anonymous volumes", func() (string, bool) {
			left := strings.Fields(s.CLI(t, "volume", "ls", "--quiet"))
			left = slices.DeleteFunc(left, func(name string) bool { return !slices.Contains(volumes, name) })
			return fmt.Sprintf("remaining volumes: %q", left), len(left) == 0
		})
	}
	p.Compose("down", "--volumes", "--timeout", "1")
	if left := strings.Fields(s.CLI(t, "network", "ls", "--quiet", "--filter", "label=com.docker.compose.project=all")); len(left) > 0 {
		t.Errorf("networks after docker compose down = %q, want none", left)
	}
}
