package docker

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/wait"
)

// The cases of this file run docker compose exactly between two calls of a fleet.

// beside is a fleet whose calls pass a gate, and the service web of a project.
type beside struct {
	*compose.Fleet
	gate *gate
	ref  targets.Ref
}

func (s *site) beside(t *testing.T, p *dockertest.Project) *beside {
	t.Helper()
	b := &beside{gate: newGate(t, s.Engine), ref: targets.Ref{Fleet: "shop", Name: p.Name + "/web"}}
	config := &compose.Config{Config: docker.Config{Host: b.gate.host()}}
	config.SetDefaults()
	f, err := compose.New("shop", config, targets.Env{Store: &targettest.Store{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Fleet = f
	return b
}

func (b *beside) read(t testing.TB) targets.Reading {
	t.Helper()
	readings, err := b.Snapshot(t.Context(), []targets.Ref{b.ref})
	if err != nil {
		t.Fatal(err)
	}
	return readings[b.ref]
}

// at runs something once, before the fleet's next call that ends in a word.
func (b *beside) at(word string, do func()) {
	once := sync.OnceFunc(do)
	b.gate.set(func() {
		b.gate.before = func(r *http.Request) {
			if path.Base(r.URL.Path) == word {
				once()
			}
		}
	})
}

// awaitSignals waits until the fleet had so many signals, or for long enough.
func (b *beside) awaitSignals(n int) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for told := 0; told < n; {
		select {
		case <-look.C:
			b.gate.set(func() { told = b.gate.signals })
		case <-deadline.C:
			return
		}
	}
}

// configurations returns Compose's hashes of containers, each once. Compose may keep
// any of those that it renews, so that their numbers say nothing.
func configurations(found []container.Summary) []string {
	var hashes []string
	for _, c := range found {
		hashes = append(hashes, c.Labels["com.docker.compose.config-hash"])
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// renewedBeside: "docker compose up" with another file, while hpad makes replicas,
// leaves none of the old configuration behind, whenever it comes.
func renewedBeside(t *testing.T, s *site) {
	const file = "services: { web: { image: \"worker:1\", stop_grace_period: 1s, environment: { VERSION: %q } } }\n"
	p := s.Project(t, "beside", fmt.Sprintf(file, "0"))
	p.Compose("up", "--detach", "--scale", "web=2")
	b := s.beside(t, p)
	for n, word := range []string{"create", "start", "json"} {
		old := configurations(s.awaitReplicas(t, "beside", 2))
		version := b.read(t).Version
		var failure error
		up := func() {
			p.Write("compose.yaml", fmt.Sprintf(file, fmt.Sprint(n+1)))
			_, failure = p.Try("up", "--detach", "--scale", "web=2")
		}
		if b.at(word, up); word == "json" { // the list after the first replica has started
			b.at("start", func() { b.at("json", up) })
		}
		err := b.SetReplicas(t.Context(), b.ref, 4, version, "a test asks")
		var partial *targets.PartialError
		if failure != nil {
			t.Fatalf("docker compose up before %s: %v", word, failure)
		}
		if !errors.Is(err, targets.ErrConflict) && !errors.As(err, &partial) {
			t.Errorf("SetReplicas() = %v with docker compose up before %s, want a conflict", err, word)
		}
		b.gate.set(func() { b.gate.before = nil })
		wait.For(t, patience, "4 replicas of the newest configuration", func() (string, bool) {
			got := b.read(t)
			if got.Err == nil && got.Hold == nil && got.SpecReplicas < 4 {
				err = b.SetReplicas(t.Context(), b.ref, 4, got.Version, "a test asks")
			}
			found := s.replicas(t, "beside", "web")
			made := configurations(found)
			return fmt.Sprintf("configurations are %v, the old one was %v; the last write says %v; the notices are %+v", made, old, err, got.Notices),
				len(found) == 4 && len(made) == 1 && made[0] != old[0]
		})
		if word == "json" {
			s.judge(t, p, "web", 4)
		}
		p.Compose("up", "--detach", "--no-recreate", "--scale", "web=2")
	}
}

// takenDownBeside: of a project that "docker compose down" removes while hpad makes
// replicas, and of a service that "docker compose rm" does, nothing is left nor made
// any more, the network is free, and the reading says what happened.
func takenDownBeside(t *testing.T, s *site) {
	const file = `services:
  web: { image: "worker:1", environment: { WORKER_STOP_AFTER: 5m }, stop_grace_period: 5m }
  other: { image: "worker:1", stop_grace_period: 1s }
`
	for _, test := range []struct {
		project string
		// before says before which replica of hpad's Compose begins, signals how many
		// containers it asks to end.
		before, signals int
		args            []string
		reason          string
	}{
		{"away", 1, 3, []string{"down"}, compose.ProjectRemoved},
		{"gone", 2, 4, []string{"down"}, compose.ProjectRemoved},
		{"cleared", 1, 2, []string{"rm", "--stop", "--force", "web"}, compose.ServiceRemoved},
	} {
		t.Run(test.project, func(t *testing.T) {
			p := s.Project(t, test.project, file)
			p.Compose("up", "--detach", "--scale", "web=2")
			b := s.beside(t, p)
			version := b.read(t).Version
			var printed dockertest.Printed
			ended := make(chan error, 1)
			begin := func() {
				go func() {
					var err error
					printed, err = p.Try(test.args...)
					ended <- err
				}()
				b.awaitSignals(test.signals)
			}
			if b.at("create", begin); test.before == 2 {
				b.at("create", func() { b.at("create", begin) })
			}
			err := b.SetReplicas(t.Context(), b.ref, 5, version, "a test asks")
			var held *targets.HeldError
			var partial *targets.PartialError
			switch {
			case !strings.Contains(fmt.Sprint(err), compose.ContainersStopping):
				t.Errorf("SetReplicas() = %v, want %s", err, compose.ContainersStopping)
			case test.before == 1 && !errors.As(err, &held):
				t.Errorf("SetReplicas() = %v, want ErrHeld", err)
			case test.before == 2 && (!errors.As(err, &partial) || partial.Reached != 3):
				t.Errorf("SetReplicas() = %v, want the 3 that it had reached", err)
			}
			names := []string{test.project + "-web-1", test.project + "-web-2", test.project + "-web-3"}[:1+test.before]
			if found := s.replicas(t, test.project, "web"); len(found) != len(names) {
				t.Errorf("while they are being stopped %s, want %q", describe(found), names)
			}
			if err := b.SetReplicas(t.Context(), b.ref, 5, "", "a test asks"); !errors.Is(err, targets.ErrHeld) {
				t.Errorf("SetReplicas() = %v, want ErrHeld", err)
			}
			s.CLI(t, append([]string{"kill"}, names...)...) // they have taken long enough
			if err := <-ended; err != nil || strings.Contains(printed.Err, "still in use") {
				t.Errorf("docker compose %s: %v\n%s", test.args, err, printed.Err)
			}
			if found := s.replicas(t, test.project, "web"); len(found) != 0 {
				t.Errorf("after docker compose %s %s", test.args, describe(found))
			}
			got := b.read(t)
			told := targets.Reason(got.Err) == test.reason || slices.ContainsFunc(got.Notices, func(n policy.Notice) bool { return n.Reason == test.reason })
			if !told || got.SpecReplicas != 0 {
				t.Errorf("the reading has %d replicas and says %v with %+v, want %s", got.SpecReplicas, got.Err, got.Notices, test.reason)
			}
			networks := strings.Fields(s.CLI(t, "network", "ls", "--quiet", "--filter", "label=com.docker.compose.project="+test.project))
			if test.reason == compose.ProjectRemoved && len(networks) > 0 {
				t.Errorf("networks %q are left", networks)
			}
		})
	}
}
