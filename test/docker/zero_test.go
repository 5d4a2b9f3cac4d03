package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/hpad/hpad/daemon/api"
	"github.com/hpad/hpad/policy"
	"github.com/hpad/hpad/targets/compose"
	"github.com/hpad/hpad/test/docker/dockertest"
	"github.com/hpad/hpad/test/internal/child"
	"github.com/hpad/hpad/test/internal/wait"
)

// program is an hpad that is a process of its own, so that it can be killed.
type program struct {
	t       testing.TB
	dir     string
	client  *api.Client
	process *child.Process
}

// newProgram builds hpad and runs it over a configuration, which lacks its
// [daemon] table, with rounds every second.
func newProgram(t testing.TB, text string) *program {
	t.Helper()
	p := &program{t: t, dir: t.TempDir()}
	if output, err := exec.Command("go", "build", "-o", p.path("hpad"), "github.com/hpad/hpad/cmd/hpad").CombinedOutput(); err != nil {
		t.Fatalf("build hpad: %v\n%s", err, output)
	}
	text = fmt.Sprintf("[daemon]\nlisten = \"\"\nsocket = %q\nstate_dir = %q\nsync_period = \"1s\"\n%s", p.path("sock"), p.path("state"), text)
	if err := os.WriteFile(p.path("hpad.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.client = api.NewClient(p.path("sock"))
	t.Cleanup(func() {
		p.kill()
		if said, err := os.ReadFile(p.path("log")); t.Failed() {
			t.Logf("what hpad said at last: %v\n%s", err, said[max(0, len(said)-4000):])
		}
	})
	p.start()
	return p
}

func (p *program) path(name string) string { return filepath.Join(p.dir, name) }

// start runs hpad until all its autoscalers had a pass.
func (p *program) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(p.path("hpad"), "run", "--config", p.path("hpad.toml"))
	command.Stdout, command.Stderr = log, log
	if p.process, err = child.Start(command); err != nil {
		p.t.Fatalf("start hpad: %v", err)
	}
	wait.For(p.t, patience, "pass of hpad", func() (string, bool) {
		if p.process.Ended() {
			p.t.Fatalf("hpad ended: %s", p.process.Command.ProcessState)
		}
		views, err := p.client.Autoscalers(p.t.Context())
		for _, listed := range views {
			view, err := p.client.Autoscaler(p.t.Context(), listed.Name)
			if err != nil || view.Decision == nil {
				return fmt.Sprintf("%s has %+v, %v", listed.Name, view.Status, err), false
			}
		}
		return fmt.Sprint(err), len(views) > 0
	})
}

// kill ends hpad without warning.
func (p *program) kill() { p.process.Kill() }

// await waits until a condition of an autoscaler has a reason, and a message with
// some words.
func (p *program) await(name string, kind policy.ConditionType, reason, words string) {
	p.t.Helper()
	wait.For(p.t, patience, fmt.Sprintf("%s of %q with reason %s and %q", kind, name, reason, words), func() (string, bool) {
		view, err := p.client.Autoscaler(p.t.Context(), name)
		for _, c := range view.Status.Conditions {
			if c.Type == kind {
				return fmt.Sprintf("it is %+v", c), c.Reason == reason && strings.Contains(c.Message, words)
			}
		}
		return fmt.Sprintf("there are only %+v, %v", view.Status.Conditions, err), false
	})
}

// awaitHealthy waits until so many containers of a project's service are there, all
// healthy.
func (s *site) awaitHealthy(t testing.TB, project, service string, n int) {
	t.Helper()
	wait.For(t, patience, fmt.Sprintf("%d healthy replicas of %s", n, project), func() (string, bool) {
		found := s.replicas(t, project, service)
		sick := slices.ContainsFunc(found, func(c container.Summary) bool { return !strings.Contains(c.Status, "(healthy)") })
		return tell(found), len(found) == n && !sick
	})
}

// TestZero: a service that uses all there is goes to zero and comes back as it was,
// although hpad was killed and the engine restarted in between, once what it depends
// on is there. What changed or went away meanwhile is told.
func TestZero(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{})
	p := newEverything(t, s.Engine, "night", 18080)
	p.Compose("up", "--detach", "--wait", "--scale", "web=1")
	fields, _ := document(t, s.Engine, "night-web-1")
	sight := seen(t, s.Engine, "night-web-1")
	s.load.Queue("night", 0)
	h := newProgram(t, s.queued("night", 0, 5)+"[fleets.shop.services.\"night/web\"]\ncopy_paths = [\"/etc/content.conf\"]\n")
	s.awaitReplicas(t, "night", 0)
	h.kill()
	s.Stop()
	s.StartAgain()
	s.load.Queue("night", 20)
	h.start()
	h.await("night", policy.AbleToScale, compose.DependencyNotReady, `"db"`)
	if found := s.replicas(t, "night", "web"); len(found) > 0 {
		t.Errorf("before its dependency runs %s", tell(found))
	}
	p.Compose("start", "db")
	s.awaitHealthy(t, "night", "web", 2)
	for _, name := range []string{"night-web-1", "night-web-2"} {
		got, volumes := document(t, s.Engine, name)
		if difference := cmp.Diff(fields, got); difference != "" || len(volumes) != 3 {
			t.Errorf("%s (+) is not as the one before zero (-), with %d anonymous volumes:\n%s", name, len(volumes), difference)
		}
		if difference := cmp.Diff(sight, seen(t, s.Engine, name)); difference != "" {
			t.Errorf("%s (+) does not see what the one before zero (-) saw:\n%s", name, difference)
		}
	}
	s.judge(t, p, "web", 2)

	s.load.Queue("night", 0)
	s.awaitReplicas(t, "night", 0)
	p.Write("compose.yaml", strings.Replace(fmt.Sprintf(everything, 18080, 18089, 18090, 18099), "PLAIN: value", "PLAIN: another", 1))
	h.await("night", compose.TemplateStale, "ComposeFileChanged", "compose.yaml")
	p.Compose("down", "--volumes", "--timeout", "1")
	s.load.Queue("night", 20)
	h.await("night", policy.AbleToScale, compose.ProjectRemoved, "docker compose up -d")
	if found := s.replicas(t, "night", "web"); len(found) > 0 {
		t.Errorf("of a project that was taken down %s", tell(found))
	}
	p.Compose("up", "--detach", "--wait", "--scale", "web=1")
	s.awaitHealthy(t, "night", "web", 2)
	if environment := seen(t, s.Engine, "night-web-2"); !strings.Contains(fmt.Sprint(environment), "PLAIN=another") {
		t.Errorf("the new replica has %v, want the changed environment", environment)
	}
}

// TestKilled: an hpad that is killed while containers stop, or are started, leaves
// neither victims nor halves of containers to the next one.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, dockertest.Options{Version: dockertest.Newest})
	p := s.Project(t, "mid", `
services:
  web: { image: worker:1, environment: { WORKER_STOP_AFTER: 3s }, stop_grace_period: 20s }
`)
	p.Compose("up", "--detach", "--scale", "web=4")
	s.load.Queue("mid", 40)
	h := newProgram(t, s.queued("mid", 1, 9))
	s.load.Queue("mid", 10)
	wait.For(t, patience, "order to have 1 replica", func() (string, bool) {
		view, err := h.client.Autoscaler(t.Context(), "mid")
		return fmt.Sprintf("it is %+v, %v", view.Status, err), err == nil && view.Status.DesiredReplicas == 1
	})
	h.kill()
	h.start()
	if found := s.awaitReplicas(t, "mid", 1); number(found[0]) != 1 {
		t.Errorf("replica %d is left, want 1", number(found[0]))
	}
	s.load.Queue("mid", 90)
	wait.For(t, patience, "a new container", func() (string, bool) {
		found := s.replicas(t, "mid", "web")
		return tell(found), len(found) > 1
	})
	h.kill()
	h.start()
	s.awaitReplicas(t, "mid", 9)
	names := map[string]bool{}
	for _, c := range s.replicas(t, "mid", "web") {
		names[c.Labels["com.docker.compose.container-number"]] = true
	}
	if len(names) != 9 {
		t.Errorf("numbers %v, want 9 of them", names)
	}
	s.judge(t, p, "web", 9)
	h.kill()
}
