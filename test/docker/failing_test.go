package docker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/internal/world"
	"github.com/hpad/hpad/test/soak"
	"github.com/hpad/hpad/test/wait"
)

// states returns the states of the service web's containers by number, and a description of them.
func (s *site) states(t testing.TB, project string) (map[int]string, string) {
	t.Helper()
	found := s.replicas(t, project, "web")
	m := map[int]string{}
	for _, c := range found {
		m[number(c)] = c.State
	}
	return m, describe(found)
}

// failing checks that hpad restarts containers that fail or run out of memory and reports them,
// including after a restart of hpad. It must not restart containers that were killed or stopped
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
		t.Errorf("in a dry run %s, want 2 exited", description)
	}

	w.Restart(text)
	w.Await("failing", compose.ContainersFailing, "ContainersExited", "failing-web-2 exited with 3, hpad starts it again 10s later")
	w.Restart(text)
	s.post(t, found[4], "eat")
	wait.For(t, patience, "containers that run again", func() (string, bool) {
		state, description := s.states(t, "failing")
		c := w.Condition("failing", compose.ContainersRestarted)
		return fmt.Sprintf("%s; %+v", description, c), state[2] == container.StateRunning && state[5] == container.StateRunning &&
			strings.Contains(c.Message, "failing-web-2 exited with 3 and was started again, 1 times so far") &&
			// Engine 20.10 may not detect that the container ran out of memory.
			(strings.Contains(c.Message, "failing-web-5 was killed out of memory and was started again, 1 times so far") ||
				strings.Contains(c.Message, "failing-web-5 exited with 137 and was started again, 1 times so far"))
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

// exhausted checks that a container that still fails after five restarts is replaced by a new one,
// which Compose accepts. The soak version waits for the restarts; the short version loads them
// from the store.
func exhausted(t *testing.T, s *site) {
	for n, count := range map[string]int{"only": 1, "many": 3} {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			s.exhaust(t, "exhausted-"+n, count)
		})
	}
}

func (s *site) exhaust(t *testing.T, project string, count int) {
	p := s.Project(t, project, "services: { web: { image: worker:1, stop_grace_period: 1s } }\n")
	p.Compose("up", "--detach", "--scale", fmt.Sprintf("web=%d", count))
	ref := targets.Ref{Fleet: "shop", Name: project + "/web"}
	store := &targettest.Store{}
	open := func() *compose.Fleet {
		config := &compose.Config{Config: docker.Config{Host: s.Host()}}
		config.SetDefaults()
		f, err := compose.New("shop", config, targets.Env{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return f
	}
	pace := time.NewTicker(200 * time.Millisecond)
	defer pace.Stop()
	read := func(f *compose.Fleet) targets.Reading {
		<-pace.C
		readings, err := f.Snapshot(t.Context(), []targets.Ref{ref})
		if err != nil {
			t.Fatal(err)
		}
		return readings[ref]
	}
	f := open()
	fail := func(plan string) {
		t.Helper()
		found := s.awaitReplicas(t, project, count)
		s.post(t, found[0], "exit?code=1")
		wait.For(t, patience, "failure with "+plan, func() (string, bool) {
			got := read(f)
			return fmt.Sprintf("%+v", got.Notices), strings.Contains(fmt.Sprint(got.Notices), "exited with 1, hpad "+plan)
		})
	}
	limit := patience
	if starts := soak.Rounds(0, 5); starts == 0 {
		fail("starts it again 10s later")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		storeRestarts(t, store, "services/"+ref.Name)
		f = open()
	} else {
		limit += 5 * time.Minute
		for n := range starts {
			fail(fmt.Sprintf("starts it again %v later", 10*time.Second<<n))
			wait.For(t, limit, "container that runs again", func() (string, bool) {
				got := read(f)
				state, description := s.states(t, project)
				return fmt.Sprintf("%s; %+v", description, got.Notices), state[1] == container.StateRunning
			})
		}
		fail("replaces it 5m0s later")
	}
	wait.For(t, limit, "replacement of the first", func() (string, bool) {
		got := read(f)
		if got.Err != nil || int(got.SpecReplicas) != count {
			t.Fatalf("spec %d, %v during the replacement, want %d", got.SpecReplicas, got.Err, count)
		}
		state, description := s.states(t, project)
		_, old := state[1]
		return description, !old && len(state) == count && state[count+1] == container.StateRunning &&
			strings.Contains(fmt.Sprint(got.Notices), fmt.Sprintf("%s-web-%d replaces %s-web-1, which exited with 1 repeatedly", project, count+1, project))
	})
	for range 3 {
		read(f)
	}
	s.ownedByCompose(t, p, "web", count)
}

// storeRestarts records in the store that the failed container was restarted five times an hour
// ago.
func storeRestarts(t *testing.T, store *targettest.Store, key string) {
	t.Helper()
	stored, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	err = json.Unmarshal(stored, &record)
	failed, ok := record["failed"].(map[string]any)
	if err != nil || !ok || len(failed) != 1 {
		t.Fatalf("stored %s, %v, want one failed container", stored, err)
	}
	for _, each := range failed {
		fields := each.(map[string]any)
		fields["starts"], fields["since"] = 5, time.Now().Add(-time.Hour)
	}
	stored, _ = json.Marshal(record)
	if err := store.Save(t.Context(), key, stored); err != nil {
		t.Fatal(err)
	}
}
