package docker

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/daemon/round"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// slowHealth checks that hpad assumes that replicas that are not healthy yet are idle (R36), so
// that the service does not grow further. If a replica becomes unhealthy later, hpad must report it
// and must not change the count.
func slowHealth(t *testing.T, s *site) {
	p := s.Project(t, "late", `
services:
  web:
    image: worker:1
    cpus: 0.1
    environment: { WORKER_BURN: "1", WORKER_HEALTH_AFTER: 8s }
    healthcheck: { test: [CMD, /worker, check], interval: 1s, timeout: 10s, retries: 1, start_period: 60s }
`)
	p.Compose("up", "--detach", "--wait")
	w := world.New(t, s.fleet("compose", "")+`
[autoscalers.late]
target       = { fleet = "shop", project = "late", service = "web" }
min_replicas = 1
max_replicas = 4
unready_after = "2s"
[[autoscalers.late.metrics]]
type                = "Resource"
resource            = "cpu"
average_utilization = 70
`)
	sawTwo := false
	wait.For(t, 2*patience, "4 replicas of late", func() (string, bool) {
		found := s.replicas(t, "late", "web")
		sawTwo = sawTwo || len(found) == 2
		if len(found) > 2 && strings.Contains(found[1].Status, "(health: starting)") {
			t.Fatalf("more than 2 replicas while the second one is starting: %s", describe(found))
		}
		return describe(found), len(found) == 4
	})
	if !sawTwo {
		t.Error("the service grew directly to 4 replicas, want 2 first because the load of one replica is 1.4 times the target")
	}
	wait.For(t, patience, "4 ready instances", func() (string, bool) {
		ready := w.View("late").Instances
		return fmt.Sprintf("%+v", ready), ready.Ready == 4
	})
	s.post(t, s.replicas(t, "late", "web")[3], "set?health=bad")
	wait.For(t, patience, "unready instance", func() (string, bool) {
		ready := w.View("late").Instances
		return fmt.Sprintf("%+v", ready), ready.Unready == 1 && ready.Ready == 3
	})
	s.stays(t, w, "late", 4, 3)
	w.Await("late", round.InstancesUnready, round.NotReady, "late-web-4: unhealthy: exit status 1 (since ")
	wait.For(t, patience, "output of a health check", func() (string, bool) {
		list, err := w.InstancesOf(t.Context(), "late")
		return fmt.Sprintf("%+v, %v", list, err), slices.ContainsFunc(list.Instances, func(i api.Instance) bool { return strings.Contains(i.HealthOutput, "worker: 503") })
	})
}

// post sends a request to a worker.
func (s *site) post(t testing.TB, c container.Summary, request string) {
	t.Helper()
	for _, endpoint := range c.NetworkSettings.Networks {
		response, err := s.HTTP().Post(fmt.Sprintf("http://%s:8080/%s", endpoint.IPAddress, request), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", request, response.Status)
		}
		return
	}
	t.Fatalf("container %s has no network", c.Names)
}

// killed checks that a killed container is treated as failed and is replaced once it is removed.
func killed(t *testing.T, s *site) {
	p := s.Project(t, "killed", "services: { web: { image: worker:1 } }\n")
	p.Compose("up", "--detach", "--scale", "web=3")
	s.load.Queue("killed", 30)
	w := world.New(t, s.queued("killed", 1, 5))
	s.stays(t, w, "killed", 3, 2)
	s.CLI(t, "kill", "killed-web-3")
	w.Await("killed", compose.ContainersFailing, "ContainersExited", "killed-web-3 exited with 137")
	s.stays(t, w, "killed", 3, 3)
	s.load.Queue("killed", 40)
	wait.For(t, patience, "fourth replica", func() (string, bool) {
		found := s.replicas(t, "killed", "web")
		return describe(found), len(found) == 4 && found[3].State == "running" && number(found[3]) == 4
	})
	// The stopped replica is removed first.
	s.load.Queue("killed", 30)
	found := s.awaitReplicas(t, "killed", 3)
	if numbers := []int{number(found[0]), number(found[1]), number(found[2])}; numbers[0] != 1 || numbers[1] != 2 || numbers[2] != 4 {
		t.Errorf("remaining replicas = %v, want 1, 2 and 4", numbers)
	}
	w.Await("killed", policy.AbleToScale, "ReadyForNewScale", "")
	s.CLI(t, "rm", "--force", "killed-web-2")
	found = s.awaitReplicas(t, "killed", 3)
	if number(found[2]) != 5 {
		t.Errorf("number of the newest replica = %d, want 5", number(found[2]))
	}
}
