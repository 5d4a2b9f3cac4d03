package docker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/wait"
)

// states returns the state of each container of the web service, by container number, and a
// description of the containers.
func (s *site) states(t testing.TB, project string) (map[int]string, string) {
	t.Helper()
	found := s.replicas(t, project, "web")
	m := map[int]string{}
	for _, c := range found {
		m[number(c)] = c.State
	}
	return m, describe(found)
}

// failing checks that hpad restarts and reports containers that fail or run out of memory,
// including after a restart of hpad. hpad must not restart containers that were killed or stopped
// manually, nor any container in a dry run.
func failing(t *testing.T, s *site) {
	p := s.Project(t, "failing", "services: { web: { image: worker:1, mem_limit: 48m, environment: { GOGC: \"400\" } } }\n")
	p.Compose("up", "--detach", "--scale", "web=5")
	s.load.Queue("failing", 50)
	text := s.queued("failing", 1, 5)
	found := s.awaitReplicas(t, "failing", 5)
	w := world.NewDryRun(t, text)
	s.CLI(t, "kill", "failing-web-3")
	s.CLI(t, "stop", "failing-web-4")
	s.post(t, found[1], "exit?code=3")
	w.Await("failing", compose.ContainersFailing, "ContainersExited", "failing-web-2 exited with 3;")
	w.Passes("failing", 12) // longer than the restart delay
	if state, description := s.states(t, "failing"); state[2] != container.StateExited {
		t.Errorf("in a dry run: %s, want 2 exited", description)
	}

	w.Restart(text)
	w.Await("failing", compose.ContainersFailing, "ContainersExited", "failing-web-2 exited with 3 (hpad restarts it after 10s)")
	w.Restart(text)
	s.post(t, found[4], "eat")
	wait.For(t, patience, "restarted containers", func() (string, bool) {
		state, description := s.states(t, "failing")
		c := w.Condition("failing", compose.ContainersRestarted)
		return fmt.Sprintf("%s; %+v", description, c), state[2] == container.StateRunning && state[5] == container.StateRunning &&
			strings.Contains(c.Message, "failing-web-2 exited with 3 (restarts by hpad: 1)") &&
			// Engine 20.10 may not detect that the container ran out of memory.
			(strings.Contains(c.Message, "failing-web-5 ran out of memory and was killed (restarts by hpad: 1)") ||
				strings.Contains(c.Message, "failing-web-5 exited with 137 (restarts by hpad: 1)"))
	})
	state, description := s.states(t, "failing")
	if state[3] != container.StateExited || state[4] != container.StateExited || len(state) != 5 {
		t.Errorf("%s, want 3 and 4 exited", description)
	}
	if n := world.Told(w.View("failing").Events, string(compose.ContainersRestarted)); n == 0 {
		t.Error("no event of ContainersRestarted")
	}
	w.Await("failing", policy.AbleToScale, "ReadyForNewScale", "")
	p.Compose("start")
	s.awaitReplicas(t, "failing", 5)
	s.ownedByCompose(t, p, "web", 5)
}
