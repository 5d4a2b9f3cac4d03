package docker

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/targets/docker"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/wait"
)

// hookedFleet is a fleet for the service web of a project. Tests can run a command just before one
// of the fleet's calls to the engine.
type hookedFleet struct {
	*compose.Fleet
	gate *gate
	ref  targets.Ref
}

func (s *site) hookedFleet(t *testing.T, p *dockertest.Project) *hookedFleet {
	t.Helper()
	b := &hookedFleet{gate: newGate(t, s.Engine), ref: targets.Ref{Fleet: "shop", Name: p.Name + "/web"}}
	config := &compose.Config{Config: docker.Config{Host: b.gate.host(), Timeout: patience}}
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

func (b *hookedFleet) read(t testing.TB) targets.Reading {
	t.Helper()
	readings, err := b.Snapshot(t.Context(), []targets.Ref{b.ref})
	if err != nil {
		t.Fatal(err)
	}
	return readings[b.ref]
}

// before runs a function once before the fleet's next call to a path that ends in action.
func (b *hookedFleet) before(action string, do func()) {
	once := sync.OnceFunc(do)
	b.gate.set(func() {
		b.gate.before = func(r *http.Request) {
			if path.Base(r.URL.Path) == action {
				once()
			}
		}
	})
}

// configurations returns the distinct configuration hashes of containers.
func configurations(found []container.Summary) []string {
	var hashes []string
	for _, c := range found {
		hashes = append(hashes, c.Labels["com.docker.compose.config-hash"])
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// updatedDuringScaleUp checks that all replicas have the new configuration after "docker compose
// up" with a changed file during a scale-up.
func updatedDuringScaleUp(t *testing.T, s *site) {
	const file = "services: { web: { image: \"worker:1\", stop_grace_period: 1s, environment: { VERSION: %q } } }\n"
	p := s.Project(t, "beside", fmt.Sprintf(file, "0"))
	p.Compose("up", "--detach", "--scale", "web=2")
	b := s.hookedFleet(t, p)
	for n, action := range []string{"create", "start"} {
		old := configurations(s.awaitReplicas(t, "beside", 2))
		version := b.read(t).Version
		var failure error
		b.before(action, func() {
			p.Write("compose.yaml", fmt.Sprintf(file, fmt.Sprint(n+1)))
			_, failure = p.Try("up", "--detach", "--scale", "web=2")
		})
		err := b.SetReplicas(t.Context(), b.ref, 4, version, "test")
		if failure != nil {
			t.Fatalf("docker compose up before %s: %v", action, failure)
		}
		b.gate.set(func() { b.gate.before = nil })
		wait.For(t, patience, "4 replicas of the newest configuration", func() (string, bool) {
			got := b.read(t)
			if got.Err == nil && got.Hold == nil && got.SpecReplicas < 4 {
				err = b.SetReplicas(t.Context(), b.ref, 4, got.Version, "test")
			}
			found := s.replicas(t, "beside", "web")
			made := configurations(found)
			return fmt.Sprintf("configurations %v, before %v; last write: %v; notices %+v", made, old, err, got.Notices),
				len(found) == 4 && len(made) == 1 && made[0] != old[0]
		})
		s.ownedByCompose(t, p, "web", 4)
		p.Compose("up", "--detach", "--no-recreate", "--scale", "web=2")
	}
}

// removedDuringScaleUp checks that no container remains after "docker compose down" during a
// scale-up, and that the service is then reported as not found.
func removedDuringScaleUp(t *testing.T, s *site) {
	const file = `services:
  web: { image: "worker:1", stop_grace_period: 1s }
  other: { image: "worker:1", stop_grace_period: 1s }
`
	for _, test := range []struct {
		project, before string
	}{
		{"away", "create"},
		{"gone", "start"},
	} {
		t.Run(test.project, func(t *testing.T) {
			p := s.Project(t, test.project, file)
			p.Compose("up", "--detach", "--scale", "web=2")
			b := s.hookedFleet(t, p)
			version := b.read(t).Version
			ended := make(chan error, 1)
			b.before(test.before, func() {
				go func() {
					_, err := p.Try("down")
					ended <- err
				}()
				wait.For(t, patience, "stopped replica", func() (string, bool) {
					found := s.replicas(t, test.project, "web")
					return describe(found), len(found) == 0 || found[0].State != "running"
				})
			})
			_ = b.SetReplicas(t.Context(), b.ref, 5, version, "test")
			<-ended // fails if a replica still uses the network
			wait.For(t, patience, compose.ServiceNotFound, func() (string, bool) {
				got, found := b.read(t), s.replicas(t, test.project, "web")
				return fmt.Sprintf("%v with %s", got.Err, describe(found)), targets.Reason(got.Err) == compose.ServiceNotFound && len(found) == 0
			})
			p.Compose("down")
		})
	}
}
