package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/wait"
)

// awaitHealthy waits until a service has exactly n containers and all are healthy.
func (s *site) awaitHealthy(t testing.TB, project, service string, n int) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("%d healthy replicas of %s", n, project), func() (string, bool) {
		found := s.replicas(t, project, service)
		sick := slices.ContainsFunc(found, func(c container.Summary) bool { return !strings.Contains(c.Status, "(healthy)") })
		return describe(found), len(found) == n && !sick
	})
}

// TestZero checks that a service that uses every option scales to zero and back to equal replicas,
// even if hpad is killed and the engine restarted in between. The service must wait for its
// dependencies, and hpad must report a changed or removed project.
func TestZero(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{})
	p := newEverything(t, s.Engine, "night", 18080)
	p.Compose("up", "--detach", "--wait", "--scale", "web=1")
	fields, _ := inspect(t, s.Engine, "night-web-1")
	state := workerState(t, s.Engine, "night-web-1")
	s.load.Queue("night", 0)
	h := program.New(t, s.queued("night", 0, 5)+"[fleets.shop.services.\"night/web\"]\ncopy_paths = [\"/etc/content.conf\"]\n")
	s.awaitReplicas(t, "night", 0)
	h.Kill()
	s.Stop()
	s.StartAgain()
	s.load.Queue("night", 20)
	h.Start()
	h.Await("night", policy.AbleToScale, compose.DependencyNotReady, `"db"`)
	if found := s.replicas(t, "night", "web"); len(found) > 0 {
		t.Errorf("before the start of its dependency: %s, want none", describe(found))
	}
	p.Compose("start", "db")
	s.awaitHealthy(t, "night", "web", 2)
	for _, name := range []string{"night-web-1", "night-web-2"} {
		got, volumes := inspect(t, s.Engine, name)
		if difference := cmp.Diff(fields, got); difference != "" || len(volumes) != 3 {
			t.Errorf("%s (+) differs from the replica before zero (-), with %d anonymous volumes:\n%s", name, len(volumes), difference)
		}
		if difference := cmp.Diff(state, workerState(t, s.Engine, name)); difference != "" {
			t.Errorf("state of %s (+) differs from the replica before zero (-):\n%s", name, difference)
		}
	}
	s.ownedByCompose(t, p, "web", 2)

	s.load.Queue("night", 0)
	s.awaitReplicas(t, "night", 0)
	p.Write("compose.yaml", strings.Replace(fmt.Sprintf(everything, 18080, 18089, 18090, 18099), "PLAIN: value", "PLAIN: another", 1))
	p.Compose("down", "--volumes", "--timeout", "1")
	s.load.Queue("night", 20)
	h.Await("night", policy.AbleToScale, compose.ServiceNotFound, "docker compose up -d")
	if found := s.replicas(t, "night", "web"); len(found) > 0 {
		t.Errorf("after docker compose down: %s, want none", describe(found))
	}
	p.Compose("up", "--detach", "--wait", "--scale", "web=1")
	s.awaitHealthy(t, "night", "web", 2)
	if environment := workerState(t, s.Engine, "night-web-2"); !strings.Contains(fmt.Sprint(environment), "PLAIN=another") {
		t.Errorf("environment of the new replica = %v, want PLAIN=another", environment)
	}
}

// TestKilled checks that, after hpad was killed during a scale-down or scale-up, the next process
// finishes the removal of victims and of containers that were not started.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{Version: dockertest.Newest})
	p := s.Project(t, "mid", `
services:
  web: { image: worker:1, environment: { WORKER_STOP_AFTER: 3s }, stop_grace_period: 20s }
`)
	p.Compose("up", "--detach", "--scale", "web=4")
	s.load.Queue("mid", 40)
	h := program.New(t, s.queued("mid", 1, 9))
	before := s.awaitReplicas(t, "mid", 4)
	s.load.Queue("mid", 10)
	wait.For(t, patience, "1 desired replica", func() (string, bool) {
		view, err := api.Get[api.Autoscaler](t.Context(), h.Client, api.Path("autoscalers", "mid"), nil)
		return fmt.Sprintf("%+v, %v", view.Status, err), err == nil && view.Status.DesiredReplicas == 1
	})
	h.Kill()
	h.Start()
	left := s.awaitReplicas(t, "mid", 1)[0]
	if !slices.ContainsFunc(before, func(c container.Summary) bool { return c.ID == left.ID }) {
		t.Errorf("remaining: %s, want one of %s", describe([]container.Summary{left}), describe(before))
	}
	s.load.Queue("mid", 90)
	wait.For(t, patience, "new container", func() (string, bool) {
		found := s.replicas(t, "mid", "web")
		return describe(found), len(found) > 1
	})
	h.Kill()
	h.Start()
	// hpad does not count the container that was created but not started before the kill. It
	// removes this container.
	wait.For(t, patience, "9 counted replicas", func() (string, bool) {
		view, err := api.Get[api.Autoscaler](t.Context(), h.Client, api.Path("autoscalers", "mid"), nil)
		found := s.awaitReplicas(t, "mid", 9)
		return fmt.Sprintf("%+v, %v; %s", view.Status, err, describe(found)), err == nil && view.Status.CurrentReplicas == 9
	})
	names := map[string]bool{}
	for _, c := range s.replicas(t, "mid", "web") {
		names[c.Labels["com.docker.compose.container-number"]] = true
	}
	if len(names) != 9 {
		t.Errorf("numbers = %v, want 9", names)
	}
	s.ownedByCompose(t, p, "web", 9)
	h.Kill()
}
